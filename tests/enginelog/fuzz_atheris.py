"""`python -m tests.enginelog.fuzz_atheris SECONDS CORPUS`: guided by coverage, from bytes to stages and causes.

Needs atheris (`make fuzz-atheris` installs it). What is found lies as `crash-*` beside the corpus."""

from __future__ import annotations

import sys
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["console"]):
    from console.base.text import clean_line
    from console.enginelog import records as records_module
    from console.enginelog.board import BoardTracker
    from console.enginelog.causes import find_cause
    from console.enginelog.diagnose import diagnose
    from console.enginelog.evidence import Evidence, RankEvidence
    from console.enginelog.evidence_collect import CauseCollector
    from console.enginelog.records import TEXT_LIMIT, Decoder, Record
    from console.enginelog.skeleton import Plans
    from console.enginelog.stages_model import Stage

PARTS = b"\xff\n"  # parts the logs of two ranks
PIECE = 1024


class Blank(Plans):
    def meet(self, skeleton: bytes) -> None:
        return


def shown_safely(text: str) -> bool:
    return clean_line(text, limit=1 << 20) == text


def read(data: bytes, plans: Plans, size: int, stamps: bool | None) -> list[Record]:
    records_module._PLANS = plans  # type: ignore[misc]
    decoder = Decoder(3, stamps, secrets=("hunter22",))
    out: list[Record] = []
    for start in range(0, len(data), size):
        out += decoder.feed(data[start : start + size])
        assert shown_safely(decoder.partial)
    return out + decoder.finish()


def one_input(data: bytes) -> None:
    """The first byte chooses how the stream is cut; what follows are the logs."""
    if not data:
        return
    size, log = data[0] % 16 * 64 + 7, data[1:]
    stamps = None if data[0] & 64 else not data[0] & 128
    warm = Plans()
    found = read(log, Blank(), len(log) + 1, stamps)
    read(log, warm, len(log) + 1, stamps)
    read(log, warm, len(log) + 1, stamps)  # learns
    assert read(log, warm, size, stamps) == found, "a plan or a cut changes what is read"
    last = 0
    for record in found:
        assert shown_safely(record.text) and len(record.text) <= TEXT_LIMIT
        assert last <= record.index
        assert "hunter22" not in record.text or b"hunter22" not in log
        last = record.index
    _state(log)


def _state(log: bytes) -> None:
    board = BoardTracker(2)
    ranks = []
    for rank, part in enumerate([*log.split(PARTS, 1), b""][:2]):
        collector = CauseCollector(rank)
        collector.feed(board.feed(rank, part))
        collector.feed(board.finish(rank))
        tracker = board.ranks[rank].tracker
        tracker.watch(part[-300:].decode("utf-8", "replace"))
        assert len(tracker.cells()) == len(Stage)
        tracker.numbers().as_mapping()
        ranks.append(RankEvidence(rank, trail=collector.trail(), cells=board.cells(rank), numbers=tracker.numbers()))
    board.numbers()
    board.durations()
    for stage in Stage:
        board.laggard(stage)
    found = find_cause(Evidence(tuple(ranks), world_size=2))
    assert found.cause is None or found.cause.sentence
    diagnose([("one.log", None, lambda: [log])])


def seeds(corpus: Path) -> None:
    """Pieces of every log and excerpt of the tests."""
    here = Path(__file__).parent
    files = sorted([*(here.parent / "fixtures" / "engine-logs").glob("*.log"), *(here / "excerpts").glob("*.log")])
    corpus.mkdir(parents=True, exist_ok=True)
    for file in files:
        data = file.read_bytes()
        for number, start in enumerate(range(0, len(data), PIECE)):
            piece = data[start : start + PIECE]
            (corpus / f"seed-{file.stem}-{number}").write_bytes(bytes([number * 37 % 256]) + piece)


def main() -> None:
    seconds, corpus = int(sys.argv[1]), Path(sys.argv[2])
    seeds(corpus)
    options = [
        f"-max_total_time={seconds}",
        "-max_len=8192",
        "-timeout=20",
        "-rss_limit_mb=2048",
        "-print_final_stats=1",
    ]
    atheris.Setup([sys.argv[0], *options, f"-artifact_prefix={corpus.parent}/", str(corpus)], one_input)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
