"""Evidence of boots that went wrong, put together from real logs of eight ranks and what states and launches say."""
# ruff: noqa: E501 lines of logs are kept whole, as they are printed

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from console.enginelog.causes_model import Diagnosis
from console.enginelog.diagnose import diagnose

FOLDER = Path(__file__).parent.parent / "fixtures" / "engine-logs"
WORLD = 8
LAUNCHED = datetime(2026, 11, 30, 1, 50, 0, tzinfo=UTC).timestamp()
HEAD = (FOLDER / "real-cpu-tp8-rank0.log").read_bytes()
WORKER = (FOLDER / "real-cpu-tp8-rank1.log").read_bytes()
ENGINE_DEAD = (
    "(EngineCore pid=21) ERROR 11-30 {clock} [core.py:1404] EngineCore encountered a fatal error.",
    "(EngineCore pid=21) ERROR 11-30 {clock} [core.py:1404] Traceback (most recent call last):",
    '(EngineCore pid=21) ERROR 11-30 {clock} [core.py:1404]   File "vllm/v1/engine/core.py", line 1395, in run_engine_core',
    "(EngineCore pid=21) ERROR 11-30 {clock} [core.py:1404] RuntimeError: Worker failed with error 'gone', please check the "
    "stack trace above for the root cause",
    "(APIServer pid=1) ERROR 11-30 {clock} [async_llm.py:906] AsyncLLM output_handler failed.",
)


def stamp(clock: str) -> str:
    return f"2026-11-30T{clock}.500000000Z "


def said(clock: str, *lines: str) -> bytes:
    return "".join(f"{stamp(clock)}{line.format(clock=clock)}\n" for line in lines).encode()


def worker(rank: int) -> bytes:
    """The real log of rank 1 as rank `rank` would have written it; standard error comes last, as docker gives it."""
    text = WORKER.decode()
    for old, new in (("rank=1 ", f"rank={rank} "), ("rank 1 in", f"rank {rank} in"), ("TP rank 1", f"TP rank {rank}"),
                     ("Worker_TP1", f"Worker_TP{rank}"), ("VllmWorker-1", f"VllmWorker-{rank}"),
                     ("node_rank 1", f"node_rank {rank}")):  # fmt: skip
        text = text.replace(old, new)
    return text.encode()


def until(log: bytes, words: bytes) -> bytes:
    """A log up to the line that holds these words, without it."""
    end = log.find(words)
    assert end > 0
    return log[: log.rfind(b"\n", 0, end) + 1]


def running() -> dict[str, Any]:
    return {"Status": "running", "Running": True, "Paused": False, "OOMKilled": False, "ExitCode": 0, "Error": "",
            "StartedAt": "2026-11-30T01:50:05.123456789Z", "FinishedAt": "0001-01-01T00:00:00Z"}  # fmt: skip


def exited(code: int, clock: str = "01:55:00", *, oom: bool = False, error: str = "") -> dict[str, Any]:
    return {**running(), "Status": "exited", "Running": False, "ExitCode": code, "OOMKilled": oom, "Error": error,
            "FinishedAt": f"2026-11-30T{clock}.000000000Z"}  # fmt: skip


class Boot:
    """Eight ranks on eight nodes, healthy until told otherwise."""

    def __init__(self) -> None:
        self.logs: dict[int, bytes] = {0: HEAD, **{r: worker(r) for r in range(1, WORLD)}}
        self.ranks: dict[int, dict[str, Any]] = {
            r: {"node": f"dgx{r + 1}", "reachable": True, "container": f"boot-r{r}", "state": running(),
                "launch": {"at": "2026-11-30T01:50:04Z", "rc": 0, "output": "4c3f\n"},
                "addresses": [f"10.77.0.{11 + r}"]}
            for r in range(WORLD)
        }  # fmt: skip
        self.more: dict[str, Any] = {}

    def loading(self) -> Boot:
        """Cut every log in the middle of the load."""
        self.logs[0] = until(HEAD, b"Loading weights took")
        for r in range(1, WORLD):
            self.logs[r] = until(worker(r), b"Loading weights took")
        return self

    def waiting(self) -> Boot:
        """Cut every log while the ranks wait for each other."""
        self.logs[0] = until(HEAD, b"is assigned as DP rank")
        for r in range(1, WORLD):
            self.logs[r] = until(worker(r), b"CPU SHM communicator")
        return self

    def end(self, rank: int, code: int, clock: str = "01:55:00", **more: Any) -> Boot:
        self.ranks[rank]["state"] = exited(code, clock, **more)
        return self

    def add(self, rank: int, clock: str, *lines: str) -> Boot:
        self.logs[rank] += said(clock, *lines)
        return self

    def no_container(self, rank: int, rc: int, output: str) -> Boot:
        self.logs.pop(rank, None)
        self.ranks[rank].update(
            container=None, state=None, launch={"at": "2026-11-30T01:50:04Z", "rc": rc, "output": output}
        )
        return self

    def states(self) -> dict[str, Any]:
        return {
            "observed_at": "2026-11-30T02:05:00Z",
            "launched_at": "2026-11-30T01:50:00Z",
            "world_size": WORLD,
            "ranks": {str(r): v for r, v in self.ranks.items()},
            **self.more,
        }

    def diagnosis(self) -> Diagnosis:
        logs = [(f"rank{r}.log", r, lambda data=data: [data]) for r, data in sorted(self.logs.items())]
        return diagnose(logs, self.states())
