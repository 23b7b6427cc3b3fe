"""`python -m tests.bench.own_console`: what the console costs on the operator's machine, beside a loop of ssh.

The console draws on a pseudo-terminal of 160x48; the nodes are a lab in another process, whose time is not counted.
"""

from __future__ import annotations

import argparse
import asyncio
import fcntl
import json
import os
import pty
import resource
import signal
import statistics
import struct
import subprocess
import sys
import tempfile
import termios
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
RECIPE = "dsv41-flash-8x"
LIMIT_MS = 50  # longer than this no turn of the loop may be: a key is answered meanwhile


@dataclass(frozen=True, slots=True)
class Load:
    """nodes of the lab, log lines a second of all ranks together (0: no deployment), the share that is allowed."""

    name: str
    nodes: int
    lines: int
    limit: float


LOADS = (
    Load("console, 8 nodes at 1 Hz, no log", 8, 0, 0.05),
    Load("console, 8 nodes, 2,000 log lines/s", 8, 2000, 0.15),
    Load("console, 128 nodes at 1 Hz", 128, 0, 0.25),
)


def environment(home: Path) -> dict[str, str]:
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("NIGHTDECK_", "XDG_", "SSH_"))}
    places = {"HOME": str(home), "XDG_STATE_HOME": f"{home}/state", "XDG_CONFIG_HOME": f"{home}/config"}
    return kept | places | {"TERM": "xterm-256color", "NIGHTDECK_STATE_DIR": f"{home}/st"}


@contextmanager
def lab(home: Path, nodes: int, lines: int) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.bench.lab_child", str(home / "lab"), str(nodes), str(lines)],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdin is not None and process.stdout is not None
    try:
        yield json.loads(process.stdout.readline())["cluster"], process
    finally:
        process.stdin.close()
        try:
            process.wait(60)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


@contextmanager
def console(
    cluster: str, result: Path, times: tuple[float, float], env: dict[str, str]
) -> Iterator[subprocess.Popen[bytes]]:
    """The console on a terminal that somebody reads."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 48, 160, 0, 0))
    command = [sys.executable, "-m", "tests.bench.console_child", cluster, str(result), *map(str, times)]
    process = subprocess.Popen(
        command, cwd=ROOT, env=env, stdin=slave, stdout=slave, stderr=slave, start_new_session=True
    )
    os.close(slave)

    def read() -> None:
        with suppress(OSError):
            while os.read(master, 1 << 16):
                pass

    threading.Thread(target=read, daemon=True).start()
    try:
        yield process
    finally:
        process.send_signal(signal.SIGTERM)
        with suppress(subprocess.TimeoutExpired):
            process.wait(20)
        process.kill()
        process.wait()
        os.close(master)


def measure(load: Load, seconds: float, settle: float) -> dict[str, Any]:
    """What `console_child` says of this load."""
    with tempfile.TemporaryDirectory(prefix="nightdeck-bench-") as folder:
        home = Path(folder)
        env, result = environment(home), home / "result.json"
        with lab(home, load.nodes, load.lines) as (cluster, child):
            if load.lines:
                launch = [sys.executable, "-m", "console", "--cluster", cluster, "launch", RECIPE, "--detach"]
                done = subprocess.run(
                    launch, cwd=ROOT, env=env, capture_output=True, stdin=subprocess.DEVNULL, text=True
                )
                if done.returncode:
                    raise RuntimeError(f"the launch ended with {done.returncode}: {done.stdout} {done.stderr}")
                assert child.stdout is not None and "writing" in child.stdout.readline()
            with console(cluster, result, (seconds, settle), env) as process:
                end = time.monotonic() + seconds + settle + 120
                while not result.exists():
                    if process.poll() is not None or time.monotonic() > end:
                        raise RuntimeError(f"the console ended with {process.poll()} before it was measured")
                    time.sleep(0.2)
                return dict(json.loads(result.read_text()))


def row(load: Load, said: dict[str, Any]) -> str:
    share = statistics.median(said["shares"])
    turns, late = sorted(said["turns"]), sorted(said["late"])
    most, usual = 1e3 * turns[-1], 1e3 * turns[int(len(turns) * 0.99)]
    return (
        f"{load.name:<40} {100 * share:5.1f} % of a core (limit {100 * load.limit:.0f} %)"
        f"   loop: at most {most:.0f} ms in one turn (limit {LIMIT_MS}; 99 of 100: {usual:.0f}), "
        f"{1e3 * max(said['joining']):.0f} while the nodes joined in {said['joined_s']:.1f} s; "
        f"late at most {1e3 * late[-1]:.0f} (99 of 100: {1e3 * late[int(len(late) * 0.99)]:.0f})"
        f"   {said['first_rss_kb'] // 1024} MB, then {said['last_rss_kb'] // 1024} MB"
        f"   {said['heard']} of {load.nodes} fresh"
    )


async def ssh_loop(nodes: int, seconds: float) -> tuple[float, float]:
    """Share of a core of `ssh NODE cat /proc/meminfo` for each node each second, and answers a second and node."""
    from console.files.clusters import load_cluster

    with tempfile.TemporaryDirectory(prefix="nightdeck-bench-") as folder, lab(Path(folder), nodes, 0) as (file, _):
        cluster = load_cluster(Path(file))
        config = ["-F", cluster.ssh_config] if cluster.ssh_config else []
        words = ["ssh", *config, "-oBatchMode=yes"]

        async def one(host: str) -> int:
            process = await asyncio.create_subprocess_exec(
                *(*words, host, "cat /proc/meminfo"),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.DEVNULL,
            )
            return int(b"MemAvailable" in (await process.communicate())[0])

        used, begun, answered = _children(), time.monotonic(), 0
        while time.monotonic() - begun < seconds:
            start = time.monotonic()
            answered += sum(await asyncio.gather(*(one(n.host) for n in cluster.nodes)))
            await asyncio.sleep(max(0.0, 1.0 - (time.monotonic() - start)))
        took = time.monotonic() - begun
        return (_children() - used) / took, answered / took / nodes


def _children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def report(wanted: Sequence[int] = (), seconds: float = 60.0, settle: float = 5.0) -> None:
    """Print a line for each load (numbers from 1; none: all, and the loop of ssh beside them)."""
    for number, load in enumerate(LOADS, 1):
        if wanted and number not in wanted:
            continue
        try:
            print(row(load, measure(load, seconds, settle)), flush=True)
        except (RuntimeError, subprocess.TimeoutExpired) as error:
            print(f"{load.name:<40} not measured: {error}", flush=True)
    if not wanted:
        share, rate = asyncio.run(ssh_loop(8, min(20.0, seconds)))
        print(f"{'`ssh NODE cat /proc/meminfo`, 8 nodes':<40} {100 * share:5.1f} % of a core   {rate:.2f} a second")


def main() -> None:
    parser = argparse.ArgumentParser(description="What the console costs on this machine.")
    parser.add_argument("loads", nargs="*", type=int, metavar="LOAD", help=f"which of {len(LOADS)} loads, from 1 (all)")
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--settle", type=float, default=5.0)
    args = parser.parse_args()
    if unknown := [str(n) for n in args.loads if not 0 < n <= len(LOADS)]:
        parser.error(f"there is no load {', '.join(unknown)}")
    report(args.loads, args.seconds, args.settle)


if __name__ == "__main__":
    main()
