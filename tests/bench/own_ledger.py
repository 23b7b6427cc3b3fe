"""The ledger's own figures: 2,000 boots listed and opened, a log of five million lines, beside ripgrep (or grep)."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime
from functools import cache
from pathlib import Path

from console.files.journal import Journal
from console.files.log_search import Query, search, tail
from console.files.packed import pack
from console.services.compare import record_of
from console.services.ledger import Ledger
from tests.bench.ground import Ground
from tests.bench.measure import Measure, Unmeasurable
from tests.services.nights import T0, boot, measured

BOOTS = 2000
LINES = 5_000_000
NEEDLE = "NCCL WARN Timeout"


@cache
def _folder() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="nightdeck-bench-ledger-")


@cache
def boots() -> Path:
    """A state folder with BOOTS boots, as a year of nights leaves it."""
    root = Path(_folder().name) / "nightdeck" / "boots"
    first = boot(Journal(root), 1, T0, ready_s=612.0, state="stopped", smoke_text="Paris.", measure=measured(95, 180))
    files = {f.name: f.read_bytes() for f in first.iterdir() if f.name not in ("lock", "telemetry.jsonl")}
    row = json.loads(files["boot.json"])
    for number in range(2, BOOTS + 1):
        at = T0 + number * 900
        path = root / f"b{number:04d}-flash-{datetime.fromtimestamp(at, UTC):%Y%m%dT%H%M%SZ}"
        path.mkdir()
        for name, data in files.items():
            (path / name).write_bytes(data)
        state = "stopped" if number % 3 else "failed"
        (path / "boot.json").write_text(json.dumps({**row, "number": number, "id": path.name, "state": state}))
        (path / "lock").write_text("1")
        os.utime(path, (at, at))
    Ledger(Journal(root)).boots()  # the index is made once; what is measured is a console that starts later
    return root


@cache
def log() -> Path:
    """Lines as an engine of eight ranks writes them; one of them is looked for."""
    path = Path(_folder().name) / "rank0.log"
    with path.open("wb") as file:
        for first in range(0, LINES, 50_000):
            file.write(
                b"".join(
                    b"2026-11-30T08:%02d:%02d.%09dZ (Worker_TP%d pid=%d) INFO 11-30 08:00:00 [gpu_model_runner.py:%d] "
                    b"step %d tokens %d\n"
                    % (n // 60_000 % 60, n // 1000 % 60, n, n % 8, 1000 + n % 8, n % 999, n, n % 4096)
                    for n in range(first, first + 50_000)
                )
            )
            if first == LINES * 7 // 10:
                file.write(b"2026-11-30T08:10:00.000000001Z NCCL WARN Timeout waiting for RX (waited 30 sec)\n")
    return path


@cache
def packed_log() -> Path:
    path = log().with_name("rank0.log.gz")
    with log().open("rb") as source, path.open("wb") as target:
        pack(source, target)
    return path


def timed(work: Callable[[], object], ready: Callable[[], object]) -> Callable[[Ground], asyncio.Future[float]]:
    """Work of this process, in a thread; what it needs is made before."""

    def take() -> float:
        ready()
        begun = time.perf_counter()
        work()
        return time.perf_counter() - begun

    async def measure(_ground: Ground) -> float:
        return await asyncio.to_thread(take)

    return measure  # type: ignore[return-value]


def _one(found: int) -> None:
    assert found == 1, found


async def _command(*argv: str, env: dict[str, str] | None = None) -> float:
    begun = time.perf_counter()
    process = await asyncio.create_subprocess_exec(
        *argv, stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.DEVNULL, env={**os.environ, **(env or {})}
    )
    code = await process.wait()
    if code != 0:
        raise Unmeasurable(f"{argv[0]} ended with {code}")
    return time.perf_counter() - begun


async def _boots_command(_ground: Ground) -> float:
    return await _command(sys.executable, "-m", "console", "boots", env={"XDG_STATE_HOME": str(boots().parents[1])})


async def _open_command(_ground: Ground) -> float:
    env = {"XDG_STATE_HOME": str(boots().parents[1])}
    return await _command(sys.executable, "-m", "console", "boots", "1000", env=env)


async def _ripgrep(_ground: Ground) -> float:
    tool = shutil.which("rg") or shutil.which("grep")
    if tool is None:
        raise Unmeasurable("neither rg nor grep is installed")
    return await _command(tool, "-c", NEEDLE, str(log()))


async def _bare(_ground: Ground) -> float:
    return await _command(sys.executable, "-c", "import asyncio, argparse, json")


def _open() -> None:
    record_of(Ledger(Journal(boots())).index.find("1000"))


LEDGER = (
    Measure("python itself (a command's floor)", _bare, limit=True),
    Measure(f"list of {BOOTS:,} boots", timed(lambda: Ledger(Journal(boots())).boots(), boots)),
    Measure(f"one of {BOOTS:,} boots opened", timed(_open, boots)),
    Measure("`nightdeck boots`", _boots_command),
    Measure("`nightdeck boots 1000`", _open_command),
)
LOGS = (
    Measure("rg -c (grep without it)", _ripgrep, limit=True),
    Measure("search for a text", timed(lambda: _one(sum(1 for _ in search(log(), Query(NEEDLE)))), log)),
    Measure(
        "search, capital letters or not",
        timed(lambda: _one(sum(1 for _ in search(log(), Query(NEEDLE.lower(), ignore_case=True)))), log),
    ),
    Measure(
        "search for an expression",
        timed(lambda: _one(sum(1 for _ in search(log(), Query("NCCL WARN.*waiting", regex=True)))), log),
    ),
    Measure(
        "search of the packed log", timed(lambda: _one(sum(1 for _ in search(packed_log(), Query(NEEDLE)))), packed_log)
    ),
    Measure("its last 5,000 lines", timed(lambda: tail(log(), 5000), log)),
    Measure("the packed log's last 5,000 lines", timed(lambda: tail(packed_log(), 5000), packed_log)),
)
