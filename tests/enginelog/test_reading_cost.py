"""What a line costs, counted and not timed: how few go the long way, and how few are looked at for causes."""

from __future__ import annotations

import copy
import pickle
from dataclasses import FrozenInstanceError, fields, replace

import pytest

from console.enginelog import records as records_module
from console.enginelog.records import Decoder, Record
from console.enginelog.signatures import SIGNATURES, matches
from console.enginelog.skeleton import Plans
from console.enginelog.stages import StageTracker
from tests.bench.bench_enginelog import varied
from tests.enginelog.excerpts import excerpts
from tests.enginelog.logs import data

SERVES = {e.name: e.data for e in excerpts()}
ISO = b"2026-09-18T23:05:57.123456789Z "


def long_ways(learnt: bytes, read: bytes, monkeypatch: pytest.MonkeyPatch) -> tuple[float, list[Record]]:
    """Share of a text's lines that have no plan once another one was read twice, and the records of that text."""
    monkeypatch.setattr(records_module, "_PLANS", Plans())
    Decoder(0).feed(learnt + b"\n" + learnt + b"\n")
    decoder = Decoder(1)
    records = decoder.feed(read + b"\n")
    return decoder.long / decoder.lines, records


@pytest.mark.parametrize(
    ("name", "most"),
    [
        ("composed-success.log", 0.03),
        ("composed-success-rank3-docker-t.log", 0.0),
        ("composed-fail-block-size.log", 0.03),
        ("real-cpu-tp8-rank0.log", 0.0),
        ("real-cpu-tp8-rank4.log", 0.0),
        ("real-cpu-real-boot.log", 0.0),
        ("gb10-sgl-serves", 0.03),
        ("gb10-serves", 0.03),
        ("torchrun-death-signal", 0.0),
    ],
)
def test_a_second_boot_with_other_numbers_needs_the_long_way_for_next_to_nothing(
    name: str, most: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    boot = SERVES[name] if name in SERVES else data(name)
    other = varied(boot, 1, 5)
    for text in (other, other.replace(b"\n", b"\r\n")):
        share, _ = long_ways(boot if text is other else boot.replace(b"\n", b"\r\n"), text, monkeypatch)
        assert share <= most


@pytest.mark.parametrize(
    ("line", "other", "kind", "process", "text"),
    [
        (b"[W0101 00:00:00.000001 utils.cpp:5] Warning: errno: 0",
         b"[W1231 23:59:59.25 utils.cpp:77] Warning: errno: 12", "torch", None, "Warning: errno: 12"),
        (b"[2026-09-18 23:05:30 TP0] Load weight begin. avail mem=90.1 GB",
         b"[2026-09-19 03:15:31 TP12] Load weight begin. avail mem=9.25 GB", "engine", "TP12",
         "Load weight begin. avail mem=9.25 GB"),
        (b"(EngineCore pid=3) INFO 09-18 23:05:30 [a.py:1] \tcpus=[1, 2]\r",
         b"(EngineCore pid=31) INFO 09-18 23:05:31 [a.py:12] \tcpus=[10, 20]\r", "engine", "EngineCore",
         "    cpus=[10, 20]"),
        (b"\x1b[36m(Worker pid=3)\x1b[0m INFO 09-18 23:05:30 [a.py:1] x 1",
         b"\x1b[36m(Worker pid=34)\x1b[0m INFO 09-18 23:05:30 [a.py:1] x 23", "engine", "Worker", "x 23"),
        (b"(Worker_TP0 pid=9) \rA:   0%|  | 0/8 [00:00<?, ?it/s]\rA: 100%|##| 8/8 [00:01<00:00, 5.0it/s]",
         b"(Worker_TP3 pid=77) \rA:   0%|  | 0/9 [00:00<?, ?it/s]\rA: 100%|##| 9/9 [00:09<00:00, 1.0it/s]", "progress",
         "Worker_TP3", "A: 100%|##| 9/9 [00:09<00:00, 1.0it/s]"),
        (b"(RayWorkerWrapper pid=45, ip=10.0.0.2) INFO 09-18 23:05:32 [m.py:692] x 1",
         b"(RayWorkerWrapper pid=4521, ip=10.0.0.13) INFO 09-18 23:05:33 [m.py:92] x 10", "engine",
         "RayWorkerWrapper ip=10.0.0.13", "x 10"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("stamp", [b"", ISO])
def test_every_kind_of_head_has_a_short_way(
    line: bytes, other: bytes, kind: str, process: str | None, text: str, stamp: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    share, (record, _) = long_ways(stamp + line, stamp + other + b"\n", monkeypatch)
    assert share <= 0.5, "only the empty line at the end"
    assert (record.kind, record.process, record.text) == (kind, process, text)


def test_two_writers_in_one_line_have_a_short_way(monkeypatch: pytest.MonkeyPatch) -> None:
    line = ISO + b"dgx%d:%d:4 [0] NCCL INFO 8 coll channels, 8 p(Worker pid=%d) INFO 09-18 23:06:14 [p.py:2] rank %d in"
    share, (first, second, _) = long_ways(line % (4, 32, 5, 3), line % (12, 324, 56, 10) + b"\n", monkeypatch)
    assert share <= 0.5
    assert (first.pid, first.text, first.process) == (324, "NCCL INFO 8 coll channels, 8 p", None)
    assert (second.pid, second.text, second.process) == (56, "rank 10 in", "Worker")
    assert first.index == second.index and first.docker_at == second.docker_at


def test_few_lines_of_a_boot_are_looked_at_for_causes(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("composed-success.log", "composed-success-rank3-docker-t.log", "real-cpu-tp8-rank0.log"):
        boot = data(name)
        _, records = long_ways(boot, varied(boot, 1, 5), monkeypatch)
        known = [r for r in records if r.hints is not None]
        looked = [r for r in known if r.hints is not None and r.hints.fault]
        assert len(known) > 0.95 * len(records) and len(looked) < 0.1 * len(records)


def test_a_record_of_a_known_shape_is_as_any_other(monkeypatch: pytest.MonkeyPatch) -> None:
    line = ISO + b"(Worker_TP3 pid=324) WARNING 09-18 23:05:57 [scheduler.py:288] Step 7"
    monkeypatch.setattr(records_module, "_PLANS", Plans())
    decoder = Decoder(3)
    first, _, third = decoder.feed((line + b"\n") * 3)
    assert decoder.long == 1
    copied, pickled = copy.copy(third), pickle.loads(pickle.dumps(third))
    assert third == copied == pickled == replace(first, index=2) and hash(third) == hash(copied)
    assert replace(third, text="x").source == third.source == "scheduler.py:288"
    assert "scheduler.py:288" in repr(third)
    with pytest.raises(FrozenInstanceError):
        third.log_at = 0.0  # type: ignore[misc]
    with pytest.raises(AttributeError):
        third.nothing  # type: ignore[attr-defined]  # noqa: B018
    assert {f.name for f in fields(third)} >= {"log_at", "process", "pid", "source", "earlier"}


def test_the_last_state_of_a_bar_that_can_be_read_counts() -> None:
    bar = "Loading safetensors checkpoint shards:  {0}% Completed | {0}/100 [00:{0}<00:01,  1.5s/it]\n"
    broken = bar.format(99).replace("[", "(")
    tracker = StageTracker(0)
    tracker.feed(Decoder(0).feed((bar.format(10) + bar.format(20) + bar.format(30) + broken).encode()))
    assert str(tracker.progress).startswith("Bar(") and getattr(tracker.progress, "done", 0) == 30


def test_bars_with_numbers_in_their_labels_are_read_once_each_in_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    line = "Capturing batches (bs={0} avail_mem=9.{0} GB):  {0}%|#| {0}/100 [00:{0}<00:01,  1.50s/it]\n"
    asked: list[str] = []
    tracker = StageTracker(0)
    before = tracker._on_bar

    def on_bar(text: str, record: Record) -> bool:
        asked.append(text)
        return before(text, record)

    monkeypatch.setattr(tracker, "_on_bar", on_bar)
    tracker.feed(Decoder(0).feed("".join(line.format(n) for n in range(10, 99)).encode()))
    assert len(asked) == 2 and getattr(tracker.progress, "done", 0) == 98


def test_what_a_line_shows_does_not_depend_on_the_order_of_signatures() -> None:
    texts = [line.decode("utf-8", "replace") for e in excerpts() for line in e.data.split(b"\n") if len(line) < 2000]
    several = [text for text in texts if len(matches(text)) > 1]
    assert len(several) > 5
    for text in several:
        assert matches(text, SIGNATURES[::-1]) == matches(text)
