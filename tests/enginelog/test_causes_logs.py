"""Causes from logs alone: captured and composed boots, published excerpts, and every log cut after any line."""

from __future__ import annotations

import pytest

from console.enginelog.board import RankLog
from console.enginelog.causes import find_cause
from console.enginelog.causes_model import Diagnosis, Verdict
from console.enginelog.diagnose import diagnose
from console.enginelog.evidence import Evidence, RankEvidence
from console.enginelog.evidence_collect import CauseCollector
from tests.enginelog.excerpts import Excerpt, excerpts
from tests.enginelog.logs import LOGS, WORKERS, data

# file: verdict, class, rank, 1-based line
EXPECTED: dict[str, tuple[str, str | None, int | None, int | None]] = {
    "composed-fail-block-size.log": ("failed", "unsupported_backend_combo", 0, 164),
    "composed-fail-rendezvous.log": ("failed", "rendezvous_timeout", 0, 42),
    "composed-fail-wedge-rank1-docker-t.log": ("failed", "host_wedged", 1, 45),
    "composed-success-ansi-sample.log": ("healthy", None, None, None),
    "composed-success-rank3-docker-t.log": ("healthy", None, None, None),
    "composed-success.log": ("healthy", None, None, None),
    "real-cpu-fail-bad-flag.log": ("failed", "unrecognized_argument", None, 5),
    "real-cpu-fail-missing-hub-model-offline.log": ("failed", "hub_offline", 0, 62),
    "real-cpu-fail-missing-model-dir.log": ("failed", "model_not_found", 0, 52),
    "real-cpu-fail-port-in-use.log": ("failed", "port_in_use", 0, 38),
    "real-cpu-real-boot.log": ("healthy", None, None, None),
    "real-cpu-real-rank0.log": ("healthy", None, None, None),
    "real-cpu-real-rank1.log": ("healthy", None, None, None),
    "real-cpu-tp8-rank0.log": ("healthy", None, None, None),
    "real-cpu-tp8-rank1.log": ("healthy", None, None, None),
    "real-cpu-tp8-rank4.log": ("healthy", None, None, None),
}


def of(name: str, raw: bytes, rank: int | None = None) -> Diagnosis:
    return diagnose([(name, rank, lambda: [raw])])


def short(found: Diagnosis) -> tuple[str, str | None, int | None, int | None]:
    cause = found.cause
    return (str(found.verdict), *((cause.cls, cause.rank, cause.line) if cause else (None, None, None)))


def test_every_fixture_is_expected() -> None:
    assert set(EXPECTED) == set(LOGS)


@pytest.mark.parametrize("name", LOGS)
def test_fixtures(name: str) -> None:
    rank = int(name.partition("rank")[2][0]) if "rank" in name else None
    found = of(name, data(name), rank)
    assert short(found) == EXPECTED[name]
    if found.cause is not None:
        cause = found.cause
        assert cause.file == name and cause.line is not None
        line = data(name).split(b"\n")[cause.line - 1].decode()
        assert cause.evidence[0].strip() in line
        assert cause.sentence and cause.action and cause.stage


@pytest.mark.parametrize("excerpt", excerpts(), ids=lambda e: e.name)
def test_published_failures(excerpt: Excerpt) -> None:
    found = of(excerpt.name, excerpt.data)
    if not excerpt.cls:
        assert (str(found.verdict), found.cause) == (excerpt.verdict, None)
        return
    assert short(found) == (excerpt.verdict, excerpt.cls, excerpt.rank, excerpt.line)
    assert found.cause is not None
    assert found.cause.sentence and found.cause.action and "?" not in found.cause.sentence


def test_there_are_enough_published_failures() -> None:
    table = excerpts()
    assert len(table) >= 150
    assert all(e.source.startswith("https://") or e.source == "public notes" for e in table)


@pytest.mark.parametrize("name", LOGS)
def test_a_log_cut_after_any_line_raises_no_cause_that_the_whole_does_not_bear_out(name: str) -> None:
    rank = WORKERS.get(name, 0)
    whole = EXPECTED[name][1]
    log, collector = RankLog(rank), CauseCollector(rank)
    seen: set[str] = set()
    for line in data(name).splitlines(keepends=True):
        collector.feed(log.feed(line))
        where = RankEvidence(
            rank, trail=collector.trail(), cells=log.tracker.cells(), numbers=log.numbers, file=name
        )  # fmt: skip
        found = find_cause(Evidence((where,)))
        if found.cause is not None:
            seen.add(found.cause.cls)
        elif whole is None:
            assert found.verdict in (Verdict.HEALTHY, Verdict.INCOMPLETE)
    allowed = {whole}
    if "wedge" in name:
        # Until the node falls behind by a minute, all it says is that the head's store is gone.
        allowed |= {"head_gone"}
    assert seen <= allowed
    assert whole is None or whole in seen


def test_a_stream_gives_the_same_however_it_is_cut() -> None:
    for name in ("composed-fail-block-size.log", "composed-fail-wedge-rank1-docker-t.log"):
        raw = data(name)
        once = diagnose([(name, 1, lambda raw=raw: [raw])])  # type: ignore[misc]
        bits = diagnose([(name, 1, lambda raw=raw: [raw[i : i + 61] for i in range(0, len(raw), 61)])])  # type: ignore[misc]
        assert once == bits


def test_two_ranks_in_one_stream_of_compose() -> None:
    head = data("composed-success.log").splitlines()[:60]
    failing = [
        b"(Worker_TP3 pid=9) ERROR 09-18 23:07:00 [multiproc_executor.py:944] WorkerProc failed to start.",
        b"(Worker_TP3 pid=9) ERROR 09-18 23:07:00 [multiproc_executor.py:944] Traceback (most recent call last):",
        b"(Worker_TP3 pid=9) ERROR 09-18 23:07:00 [multiproc_executor.py:944] safetensors_rust.SafetensorError: Error "
        b"while deserializing header: incomplete metadata, file not fully covered",
    ]
    raw = b"".join(b"vllm-rank0  | " + line + b"\n" for line in head[:30])
    raw += b"".join(b"vllm-rank3  | " + line + b"\n" for line in failing)
    raw += b"".join(b"vllm-rank0  | " + line + b"\n" for line in head[30:])
    found = of("compose.log", raw)
    assert short(found) == ("failed", "damaged_weights", 3, 33)
    assert found.cause is not None and found.cause.file == "compose.log"


def test_the_first_rank_in_time_not_the_first_file() -> None:
    line = "2026-09-18T23:0{m}:00.000000000Z (Worker_TP{r} pid=9) ERROR 09-18 23:0{m}:00 [m.py:9] {text}\n"
    early = line.format(m=6, r=5, text="Traceback (most recent call last):") + line.format(
        m=6, r=5, text="torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."
    )
    late = line.format(m=7, r=2, text="Traceback (most recent call last):") + line.format(
        m=7, r=2, text="ValueError: No common block size for 64. "
    )
    logs = [("rank2.log", 2, lambda: [late.encode()]), ("rank5.log", 5, lambda: [early.encode()])]
    found = diagnose(logs)
    assert short(found) == ("failed", "gpu_oom", 5, 2)
    assert [(c.cls, c.rank) for c in found.others] == [("unsupported_backend_combo", 2)]


def test_a_clock_that_is_off_is_corrected() -> None:
    def where(rank: int, at: str, text: str, offset: float) -> RankEvidence:
        log, collector = RankLog(rank), CauseCollector(rank)
        raw = f"2026-09-18T{at}.000000000Z (Worker_TP{rank} pid=9) ERROR 09-18 {at} [m.py:9] "
        collector.feed(log.feed(f"{raw}Traceback (most recent call last):\n{raw}{text}\n".encode()))
        return RankEvidence(rank, trail=collector.trail(), cells=log.tracker.cells(), clock_offset_s=offset)

    oom = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."
    for offset, first in ((0.0, 1), (-600.0, 2)):
        ranks = (
            where(1, "23:06:00", "RuntimeError: " + oom, 0.0),
            where(2, "23:10:00", "RuntimeError: " + oom, offset),
        )
        cause = find_cause(Evidence(ranks)).cause
        assert cause is not None and cause.rank == first


def test_a_failed_request_does_not_fail_the_engine() -> None:
    raw = data("composed-success.log") + (
        b"ERROR:    Exception in ASGI application\nTraceback (most recent call last):\n"
        b'  File "starlette/routing.py", line 12, in app\n'
        b"pydantic_core._pydantic_core.ValidationError: 1 validation error for ChatCompletionRequest\n"
        b"(APIServer pid=1) ERROR 09-18 23:30:00 [serving.py:1] Error in preprocessing prompt inputs\n"
    )
    assert short(of("rank0.log", raw, 0))[0] == "healthy"


def test_the_engine_died_while_it_served() -> None:
    raw = data("composed-success.log") + (
        b"(EngineCore pid=310) ERROR 09-18 23:30:00 [core.py:1] EngineCore encountered a fatal error.\n"
        b"(APIServer pid=1) ERROR 09-18 23:30:00 [async_llm.py:9] AsyncLLM output_handler failed.\n"
    )
    assert short(of("rank0.log", raw, 0))[:3] == ("failed", "engine_dead_serving", 0)


def test_requests_run_and_no_token_comes() -> None:
    still = (
        b"(APIServer pid=1) INFO 09-18 23:30:0%d [loggers.py:2] Engine 000: Avg prompt throughput: 0.0 tokens/s, Avg "
        b"generation throughput: 0.0 tokens/s, Running: 3 reqs, Waiting: 0 reqs, GPU KV cache usage: 1.2%%\n"
    )
    raw = data("composed-success.log")
    assert of("rank0.log", raw + b"".join(still % n for n in range(8)), 0).verdict is Verdict.HEALTHY
    found = of("rank0.log", raw + b"".join(still % n for n in range(9)), 0)
    assert short(found) == ("hung", "serving_hang", 0, raw.count(b"\n") + 1)
    moving = (
        raw
        + b"".join(still % n for n in range(9))
        + still.replace(b"throughput: 0.0 tokens/s, R", b"throughput: 8.0 tokens/s, R") % 9
    )
    assert of("rank0.log", moving, 0).verdict is Verdict.HEALTHY


def test_sglang_stops_with_words_of_a_crash() -> None:
    raw = (
        b"[2026-01-30 18:11:14 TP0] Load weight begin. avail mem=70.00 GB\n"
        b"[2026-01-30 18:12:27] The server is fired up and ready to roll!\n"
        b"[2026-01-30 18:20:00] SIGTERM received. signum=None frame=None. Draining requests and shutting down...\n"
        b"[2026-01-30 18:20:05] Subprocess scheduler_0 (pid=77) crashed with exit code -15\n"
    )
    assert of("rank0.log", raw, 0).cause is None


def test_secrets_are_masked_in_evidence() -> None:
    raw = b"ValueError: bad token: hf_abcdefghijklmnopqrstuvwx for api_key='topsecretvalue'\n"
    raw = b"Traceback (most recent call last):\n" + raw
    cause = of("rank0.log", raw, 0).cause
    assert cause is not None
    assert "topsecretvalue" not in str(cause) and "hf_abcdef" not in str(cause)
