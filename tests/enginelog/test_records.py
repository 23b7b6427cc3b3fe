"""Bytes into records: heads of every version and launcher, cuts anywhere, hostile bytes."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from console.enginelog.lineformat import elapsed, log_seconds
from console.enginelog.pieces import LINE_LIMIT
from console.enginelog.records import TEXT_LIMIT, Decoder, Record, docker_lag
from tests.enginelog.logs import LOGS, data, decode


def one(line: bytes) -> Record:
    records = decode(line + b"\n")
    assert len(records) == 1
    return records[0]


def test_a_plain_line_of_the_engine() -> None:
    record = one(b"(Worker_TP3 pid=324) INFO 09-18 23:06:15 [model_runner.py:394] Loading model from scratch...")
    assert record == Record(
        rank=0,
        index=0,
        docker_at=None,
        log_at=log_seconds("09-18 23:06:15"),
        level="INFO",
        process="Worker_TP3",
        pid=324,
        source="model_runner.py:394",
        text="Loading model from scratch...",
        continuation=False,
        kind="engine",
    )


def test_a_record_is_frozen() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        one(b"x").text = "y"  # type: ignore[misc]


@pytest.mark.parametrize(
    ("line", "process", "pid", "level", "kind", "text"),
    [
        (b"INFO 09-18 23:05:32 [config.py:840] x", None, None, "INFO", "engine", "x"),
        (b"(EngineCore_DP0 pid=9) ERROR 09-18 23:05:32 [core.py:1] x", "EngineCore_DP0", 9, "ERROR", "engine", "x"),
        (b"(VllmWorker-1 pid=17) WARNING 11-30 01:51:41 [vllm.py:725] x", "VllmWorker-1", 17, "WARNING", "engine", "x"),
        (b"(MainProcess pid=1) INFO 11-30 01:51:41 [a/b.py:7] x", "MainProcess", 1, "INFO", "engine", "x"),
        (b"(APIServer pid=1) INFO:     Application startup complete.", "APIServer", 1, "INFO", "uvicorn",
         "Application startup complete."),
        (b"INFO:     Application startup complete.", None, None, "INFO", "uvicorn", "Application startup complete."),
        (b"vllm-1  | (APIServer pid=1) INFO 09-18 23:05:32 [m.py:692] x", "APIServer", 1, "INFO", "engine", "x"),
        (b"vllm-1  | 2026-09-18T23:05:32.737130684Z (APIServer pid=1) INFO:     x", "APIServer", 1, "INFO", "uvicorn",
         "x"),
        (b"(RayWorkerWrapper pid=4521, ip=10.0.0.2) INFO 09-18 23:05:32 [m.py:692] x", "RayWorkerWrapper ip=10.0.0.2",
         4521, "INFO", "engine", "x"),
        (b"(EngineCore pid=310) (RayWorkerWrapper pid=4521, ip=10.0.0.2) INFO 09-18 23:05:32 [m.py:692] x",
         "RayWorkerWrapper ip=10.0.0.2", 4521, "INFO", "engine", "x"),
        (b"vllm-1  | \x1b[36m(RayWorkerWrapper pid=4521, ip=10.0.0.2)\x1b[0m INFO 09-18 23:05:32 [m.py:692] x",
         "RayWorkerWrapper ip=10.0.0.2", 4521, "INFO", "engine", "x"),
        (b"[2026-01-01 12:00:00 TP3] Load weight begin. avail mem=90.1 GB", "TP3", None, None, "engine",
         "Load weight begin. avail mem=90.1 GB"),
        (b"[2026-09-18 23:13:51] dgx2:187:293 [0] misc/socket.cc:85 (ncclSocketShutdown) NCCL WARN Call failed", None,
         187, "WARNING", "nccl", "NCCL WARN Call failed"),
        (b"dgx4:324:324 [0] NCCL INFO Using network IB", None, 324, "INFO", "nccl", "NCCL INFO Using network IB"),
        (b"NCCL version 2.30.7+cuda13.3", None, None, "INFO", "nccl", "NCCL version 2.30.7+cuda13.3"),
        (b"[rank1]:[W926 09:44:16.446545876 TCPStore.cpp:125] [c10d] recvValue failed", None, None, "WARNING", "torch",
         "[c10d] recvValue failed"),
        (b"[E1130 01:51:48.232328170 utils.cpp:41] boom", None, None, "ERROR", "torch", "boom"),
        (b"/x/dispatcher.py:138: FutureWarning: `a` is deprecated", None, None, "WARNING", "raw",
         "/x/dispatcher.py:138: FutureWarning: `a` is deprecated"),
        (b"| GPU  Name | Bus-Id |", None, None, None, "raw", "| GPU  Name | Bus-Id |"),
        (b"", None, None, None, "raw", ""),
    ],
)  # fmt: skip
def test_heads(line: bytes, process: str | None, pid: int | None, level: str | None, kind: str, text: str) -> None:
    record = one(line)
    assert (record.process, record.pid, record.level, record.kind, record.text) == (process, pid, level, kind, text)


def test_source_and_time_of_nccl_and_torch() -> None:
    nccl = one(b"[2026-09-18 23:13:51] dgx2:187:293 [0] misc/socket.cc:85 (f) NCCL WARN x")
    assert (nccl.source, nccl.log_at) == ("misc/socket.cc:85", log_seconds("09-18 23:13:51"))
    torch = one(b"[rank1]:[W0919 00:10:35.500000000 TCPStore.cpp:125] [c10d] x")
    assert torch.source == "TCPStore.cpp:125"
    assert torch.log_at == (log_seconds("09-19 00:10:35") or 0) + 0.5


@pytest.mark.parametrize(
    ("stamp", "at"),
    [
        (b"2026-09-18T23:05:32.737130684Z ", 1789772732.737130684),
        (b"2026-09-18T23:05:32Z ", 1789772732.0),
        (b"2026-09-19T01:05:32.5+02:00 ", 1789772732.5),
    ],
)
def test_docker_stamps(stamp: bytes, at: float) -> None:
    record = one(stamp + b"(Worker pid=1) INFO 09-18 23:05:32 [a.py:1] x")
    assert record.docker_at == pytest.approx(at, abs=1e-6)
    assert record.text == "x"


def test_a_stamp_that_is_no_moment_stays_in_the_text() -> None:
    record = one(b"2026-99-18T23:05:32.737130684Z x")
    assert record.docker_at is None
    assert record.text == "2026-99-18T23:05:32.737130684Z x"


def test_stamps_can_be_left_alone() -> None:
    record = Decoder(0, docker_timestamps=False).feed(b"2026-09-18T23:05:32.737130684Z x\n")[0]
    assert (record.docker_at, record.text) == (None, "2026-09-18T23:05:32.737130684Z x")


def test_stamps_in_the_middle_of_a_long_line_go() -> None:
    first = b"2026-09-18T23:05:32.737130684Z (APIServer pid=1) INFO 09-18 23:05:32 [a.py:1] " + b"a" * 16000
    record = one(first + b"2026-09-18T23:05:32.737130999Z " + b"b" * 100)
    assert "2026" not in record.text
    assert record.docker_at == pytest.approx(1789772732.737130684)
    short = one(b"2026-09-18T23:05:32.737130684Z started at 2026-09-18T23:05:32.737130999Z ok")
    assert short.text == "started at 2026-09-18T23:05:32.737130999Z ok"


def test_lag_between_docker_and_the_engine_is_minutes_on_a_wedged_node() -> None:
    wedged = decode(data("composed-fail-wedge-rank1-docker-t.log"), 1)
    lags = [lag for lag in map(docker_lag, wedged) if lag is not None]
    assert max(lags[:30]) < 2
    assert max(lags) == pytest.approx(212.408, abs=0.01)


def test_time_goes_on_over_new_year() -> None:
    before, after = log_seconds("12-31 23:59:50"), log_seconds("01-01 00:00:20")
    assert before is not None
    assert after is not None
    assert elapsed(before, after) == 30
    assert log_seconds("13-01 00:00:00") is None


def test_two_writers_in_one_line_are_two_records() -> None:
    records = decode(data("composed-success-rank3-docker-t.log"), 3)
    met = [r for r in records if r.index == 25]
    assert [r.kind for r in met] == ["nccl", "engine"]
    assert met[1].text.startswith("rank 3 in world size 8 is assigned")
    assert met[1].process == "Worker"
    assert all(r.docker_at == met[0].docker_at for r in met)


def test_progress_keeps_the_last_state_and_the_earlier_ones_beside_it() -> None:
    bars = [r for r in decode(data("composed-success.log")) if "PIECEWISE" in r.text and r.kind == "progress"]
    assert len(bars) == 2
    assert "100%" in bars[0].text
    assert bars[0].earlier.count("\r") == 14
    assert (bars[0].process, bars[0].pid) == ("Worker_TP0", 383)


def test_an_unfinished_bar_can_be_read() -> None:
    decoder = Decoder(0)
    bar = "\rCapturing CUDA graphs: 7%| | 1/15 [00:00<00:05, 2.50it/s]\rCapturing CUDA graphs: 13%| | 2/15 [00:00<00:05"
    assert decoder.feed(b"(Worker_TP0 pid=383) " + bar.encode()) == []
    assert decoder.partial.startswith("Capturing CUDA graphs: 13%")


def test_a_bar_and_a_message_in_one_line() -> None:
    line = b"\rCapturing: 50%| | 1/2 [00:00<00:05, 2.50it/s](Worker pid=1) INFO 09-18 23:05:32 [a.py:1] Done"
    bar, message = decode(line + b"\n")
    assert (bar.kind, message.kind, message.text) == ("progress", "engine", "Done")


def test_header_continued_lines_and_tracebacks() -> None:
    records = decode(data("composed-fail-block-size.log"))
    start = next(r for r in records if r.text == "WorkerProc hit an exception.")
    block = [r for r in records if r.process == "Worker_TP0" and start.index < r.index <= start.index + 12]
    assert not start.continuation
    assert all(r.continuation for r in block)
    assert block[-1].text == "ValueError: No common block size for 64. "
    wrapper = next(r for r in records if r.text == "EngineCore failed to start.")
    assert not wrapper.continuation
    bare = [r for r in records if r.process == "APIServer" and r.kind == "raw"]
    assert [r.continuation for r in bare] == [False] + [True] * (len(bare) - 1)


def test_a_traceback_ends_with_its_exception() -> None:
    log = b'Traceback (most recent call last):\n  File "a.py", line 1, in f\n    f()\nValueError: x\nnext line\n'
    assert [r.continuation for r in decode(log)] == [False, True, True, True, False]


def test_a_long_line_is_cut_and_memory_stays_bounded() -> None:
    decoder = Decoder(0)
    for _ in range(160):
        assert decoder.feed(b"x" * 65536) == []
        assert len(decoder._held) <= 3 * LINE_LIMIT
    records = decoder.feed(b"end\n(Worker pid=1) INFO 09-18 23:05:32 [a.py:1] ok\n")
    assert [len(r.text) <= TEXT_LIMIT for r in records] == [True, True]
    assert records[1].text == "ok"
    assert records[1].index == 1


def test_secrets_do_not_pass() -> None:
    line = b"(APIServer pid=1) INFO 09-18 23:05:30 [a.py:1] non-default args: {'api_key': ['abc-1234567'], 'port': 1}"
    assert one(line).text == "non-default args: {'api_key': '***', 'port': 1}"
    assert "hf_" not in one(b"login with hf_AbCdEfGhIjKlMnOpQrSt").text
    known = Decoder(0, secrets=["s3cret-value"])
    assert known.feed(b"token s3cret-value here\n")[0].text == "token *** here"
    known.feed(b"\rtoken s3cret-value")
    assert "s3cret" not in known.partial


def test_control_codes_do_not_pass() -> None:
    record = one("a\x00b\x1b]0;title\x07c\x1b[31md\u202ee\x9b31mf".encode())
    assert record.text == "abcdef"


@pytest.mark.parametrize("name", LOGS)
def test_stamps_change_nothing_else(name: str) -> None:
    plain = decode(data(name))
    if plain[0].docker_at is not None:
        return
    stamp = b"2026-09-18T23:05:32.737130684Z "
    stamped = decode(b"".join(stamp + line + b"\n" for line in data(name).removesuffix(b"\n").split(b"\n")))
    assert all(r.docker_at == pytest.approx(1789772732.73713) for r in stamped)
    assert [dataclasses.replace(r, docker_at=None) for r in stamped] == plain


def test_the_coloured_sample_reads_as_the_plain_log() -> None:
    coloured = decode(data("composed-success-ansi-sample.log"))
    plain = [(r.process, r.level, r.log_at, r.source, r.text, r.kind) for r in decode(data("composed-success.log"))]
    for record in coloured:
        if record.kind == "engine" and record.process != "Worker_TP0":
            assert (record.process, record.level, record.log_at, record.source, record.text, record.kind) in plain
    assert [r.kind for r in coloured] == ["engine", "engine", "progress", "engine", "uvicorn"]


def chunks(raw: bytes, cuts: list[int]) -> list[Record]:
    decoder = Decoder(0)
    out: list[Record] = []
    start = 0
    for cut in [*sorted(c % (len(raw) + 1) for c in cuts), len(raw)]:
        out += decoder.feed(raw[start:cut])
        start = cut
    return out + decoder.finish()


@pytest.mark.parametrize("name", LOGS)
def test_byte_by_byte_equals_whole(name: str) -> None:
    raw = data(name)[:12000] + "\n(Worker pid=1) INFO 09-18 23:05:32 [a.py:1] ein Häkchen ✓".encode()
    assert chunks(raw, list(range(len(raw)))) == decode(raw)


SPICE = st.sampled_from(
    [
        b"\r",
        b"\n",
        b"\r\n",
        b"\x1b[31m",
        b"\x00",
        b"\xff\xfe",
        b"\xc3",
        "█ version ".encode(),
        b"(Worker pid=1) ",
        b"INFO 09-18 23:05:32 [a.py:1] ",
        b"2026-09-18T23:05:32.737130684Z ",
        b"vllm-1  | ",
        b"50%| | 1/2 [00:01<00:01, 1.0it/s]",
        b"Traceback (most recent call last):\n",
        b"  File ",
        b"[rank1]:[W0919 00:10:35.69 a.cpp:1] ",
        b"h:1:2 [0] NCCL INFO ",
        b"INFO:     ",
        b"api_key='x'",
        b"[2026-01-01 12:00:00 TP3] ",
        b"GPU KV cache size: 1 tokens",
        b"a" * 70000,
        b"\xe2\x80\xae",
    ]
)
HOSTILE = st.lists(st.one_of(SPICE, st.binary(max_size=40)), max_size=40).map(b"".join)


@given(raw=HOSTILE, cuts=st.lists(st.integers(0, 1 << 20), max_size=20))
@settings(max_examples=300, deadline=None)
def test_hostile_bytes_never_raise_and_cuts_change_nothing(raw: bytes, cuts: list[int]) -> None:
    whole = decode(raw)
    assert chunks(raw, cuts) == whole
    for record in whole:
        assert len(record.text) <= TEXT_LIMIT
        assert not any(ord(c) < 32 or 0x7F <= ord(c) < 0xA0 for c in record.text)
    assert [r.index for r in whole] == sorted(r.index for r in whole)
    assert {r.index for r in whole} == set(range(raw.count(b"\n") + (not raw.endswith(b"\n") and raw != b"")))
