"""`nightdeck lab`: bring a simulated cluster up and keep it up."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import shlex
import signal
import sys
import tempfile
from pathlib import Path

from console.base.errors import ExitCode, NightdeckError
from console.lab.clock import SPEED_SCREEN
from console.lab.lab import RUN_PROBES, Lab, LabConfig
from console.lab.layout import discard
from console.lab.registry import register, unregister
from console.lab.scenarios import SCENARIOS


def parser() -> argparse.ArgumentParser:
    p = argparse.ArgumentParser(
        prog="nightdeck lab",
        description="A simulated cluster that speaks real SSH.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="scenarios:\n" + "\n".join(f"  {s.name:<20} {s.summary}" for s in SCENARIOS.values()),
    )
    p.add_argument("--dir", type=Path, help="the lab's folder (default: a new one, removed at the end)")
    p.add_argument("--nodes", type=int, default=8, help="how many nodes, up to 128 (default: 8)")
    p.add_argument(
        "--speed",
        type=float,
        default=None,
        help=f"lab seconds a second (default: $NIGHTDECK_LAB_SPEED or {SPEED_SCREEN:g})",
    )
    p.add_argument("--scenario", default="healthy", help="the fault to have (default: healthy, none)")
    p.add_argument(
        "--recipes", type=Path, action="append", default=[], help="a folder of recipes whose images every node has"
    )
    p.add_argument("--image", action="append", default=[], help="another image that every node has")
    p.add_argument(
        "--serve", action="store_true", help="register, so that `--cluster lab` of other commands uses this one"
    )
    p.add_argument(
        "--light",
        action=argparse.BooleanOptionalAction,
        default=None,
        help=f"the lab answers the telemetry probes itself, no process a node (default: beyond {RUN_PROBES} nodes)",
    )
    p.add_argument("--json", action="store_true", help="say where it is in one line of JSON (the default when piped)")
    p.add_argument("--parent-pipe", action="store_true", help="end when standard input ends")
    return p


def speed_from_environment(default: float) -> float:
    """`NIGHTDECK_LAB_SPEED`, or `default` where it is unset or no number above 0."""
    try:
        speed = float(os.environ.get("NIGHTDECK_LAB_SPEED", ""))
    except ValueError:
        return default
    return speed if speed > 0 else default


async def serve(
    config: LabConfig, *, registered: bool = False, parent_pipe: bool = False, people: bool = False
) -> None:
    """Bring the lab up, say so on standard output, and keep it until a signal or the parent's end. people: in words
    for a terminal, with the commands to copy, instead of one line of JSON."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(number, stop.set)
    _watch_children_by_descriptor()
    lab = Lab(config)
    parent: asyncio.Task[None] | None = None
    try:
        await lab.start()
        if registered:
            register(lab.folder)
        parent = await _watch_parent(stop) if parent_pipe else None
        state = {
            "ready": True,
            "cluster": str(lab.cluster_file),
            "folder": str(lab.folder),
            "pid": os.getpid(),
            "control": str(lab.control_socket),
        }
        sys.stdout.write(in_words(lab, registered=registered) if people else json.dumps(state) + "\n")
        sys.stdout.flush()
        await stop.wait()
    finally:
        if parent is not None:
            parent.cancel()
        if registered:
            unregister()
        await lab.close()


def _watch_children_by_descriptor() -> None:
    """Before Python 3.12 asyncio starts a thread per child; with a hundred probes that is a hundred threads. Of the
    whole process, so for a lab that has one of its own."""
    if sys.version_info < (3, 12) and hasattr(os, "pidfd_open"):
        watcher = asyncio.PidfdChildWatcher()
        watcher.attach_loop(asyncio.get_running_loop())
        asyncio.set_child_watcher(watcher)


def in_words(lab: Lab, *, registered: bool) -> str:
    """How the lab that runs here is used from another terminal."""
    names = list(lab.world.nodes)
    nodes = names[0] if len(names) == 1 else f"{len(names)} nodes, {names[0]} to {names[-1]}"
    word = "lab" if registered else shlex.quote(str(lab.cluster_file))
    here = "" if "NIGHTDECK_STATE_DIR" not in os.environ else " (with the same NIGHTDECK_STATE_DIR)"
    recipe = "tiny-cpu --nodes 1" if len(names) < 4 else "dsv41-flash-4x" if len(names) < 8 else "dsv41-flash-8x-safe"
    control = (
        "nightdeck lab --set"
        if registered
        else shlex.join([sys.executable, "-m", "console.lab.ctl", str(lab.folder), "set"])
    )
    rows = [
        f"The lab runs: {nodes}; scenario {lab.world.scenario.name}, time {lab.clock.speed:g} times as fast. "
        "Ctrl-C ends it.",
        "",
        f"In another terminal{here}:",
        f"  nightdeck --cluster {word}",
        f"  nightdeck --cluster {word} launch {recipe}",
        f"  nightdeck --cluster {word} status",
        f"  nightdeck --cluster {word} stop",
        "",
        "A fault while it runs (`nightdeck lab --list` names them all), and none again:",
        f"  {control} rank-dies-loading",
        f"  {control} healthy",
        "",
        f"Its cluster file, where another user or a script wants it: {lab.cluster_file}",
    ]
    return "\n".join(rows) + "\n"


async def _watch_parent(stop: asyncio.Event) -> asyncio.Task[None]:
    """The parent holds the other end of our standard input; when it goes, however it goes, the lab goes too."""
    reader = asyncio.StreamReader()
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)

    async def watch() -> None:
        with contextlib.suppress(OSError):
            while await reader.read(4096):
                pass
        stop.set()

    return asyncio.create_task(watch(), name="parent")


def bundled_recipes() -> list[Path]:
    """The recipes that come with the product, from a checkout or from an installed package."""
    root = Path(__file__).resolve().parents[1]
    return [p for p in (root.parent / "recipes", root / "_shipped" / "recipes", Path("recipes")) if p.is_dir()]


def main(argv: list[str] | None = None) -> int:
    """The command line. Exit codes as of all commands."""
    options = parser().parse_args(argv)
    own = options.dir is None
    folder = Path(tempfile.mkdtemp(prefix="nightdeck-lab-")) if own else options.dir
    config = LabConfig(
        folder=folder,
        nodes=options.nodes,
        speed=options.speed if options.speed is not None else speed_from_environment(SPEED_SCREEN),
        scenario=options.scenario,
        recipes=(*bundled_recipes(), *options.recipes),
        images=tuple(options.image),
        light=options.light,
    )
    try:
        people = sys.stdout.isatty() and not (options.json or options.parent_pipe)
        asyncio.run(serve(config, registered=options.serve, parent_pipe=options.parent_pipe, people=people))
    except (NightdeckError, ValueError) as e:
        sys.stderr.write(f"nightdeck lab: {e}\n")
        return ExitCode.USAGE
    except KeyboardInterrupt:
        return ExitCode.INTERRUPTED
    finally:
        if own:
            discard(folder)
    return ExitCode.DONE
