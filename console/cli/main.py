"""From the words on the command line to an exit code."""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import sys
from collections.abc import Awaitable, Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from console.base.errors import ExitCode, NightdeckError, UsageError
from console.cli.out import Out
from console.cli.parser import build_parser

if TYPE_CHECKING:
    import asyncio

    from console.cli.world import World

# How long an end in error waits for a reader of what was printed before it.
LAST_WORDS_S: Final = 2.0
# Module and function: a command imports what it needs, and no other command's half of the house.
ASYNC: Final[dict[str, str]] = {
    "plan": "cmd_plan.plan",
    "preflight": "cmd_plan.preflight",
    "launch": "cmd_launch.launch",
    "status": "cmd_status.status",
    "top": "cmd_top.top",
    "alarms": "cmd_alarms.rules",
    "export": "cmd_export.export",
    "record": "cmd_export.record",
    "replay events": "cmd_replay.events",
    "logs": "cmd_status.logs",
    "stop": "cmd_launch.stop",
    "restart": "cmd_launch.restart",
    "controls": "cmd_controls.controls",
    "smoke": "cmd_launch.smoke",
    "measure": "cmd_measure.measure",
    "night": "cmd_night.night",
    "cluster init": "cmd_cluster.init",
    "cluster check": "cmd_cluster.check",
    "image sync": "cmd_image.sync",
    "image build": "cmd_image.build",
}
SYNC: Final[dict[str, str]] = {
    "recipes": "cmd_recipes.recipes",
    "boots": "cmd_boots.boots",
    "bisect": "cmd_bisect.bisect",
    "diff": "cmd_diff.diff",
    "logs of a boot": "cmd_logs.kept",
    "report": "cmd_report.report",
    "diagnose": "cmd_diagnose.run",
}


def command(name: str) -> Callable[..., Any]:
    """The function that carries a command out."""
    module, _, function = name.partition(".")
    found: Callable[..., Any] = getattr(import_module(f"console.cli.{module}"), function)
    return found


def main(argv: list[str], make_world: Callable[[argparse.Namespace], World]) -> int:
    """Run one command. Never raises for what an operator can meet: it says it on stderr and returns the code."""
    args = build_parser().parse_args(argv)
    out = Out(as_json=args.json)
    try:
        code = int(_dispatch(args, make_world(args), out))
        out.finish()
        return code
    except NightdeckError as error:
        from console.base.secrets import mask_text

        _finish(out)
        out.say(f"nightdeck: {mask_text(str(error))}")
        return int(error.exit_code)
    except _interruptions():
        _finish(out)
        out.say("nightdeck: interrupted")
        return int(ExitCode.INTERRUPTED)
    except BrokenPipeError:
        _drop_output()  # the reader of a pipe went away: that ends the output, it is no failure of ours
        return int(ExitCode.DONE)
    except OSError as error:
        _drop_output()
        out.say(f"nightdeck: {error}")
        return int(ExitCode.FAILED)


def _finish(out: Out) -> None:
    """What was printed before it ended; nobody is waited for long, and a pipe that is closed is no news any more."""
    with contextlib.suppress(OSError):
        out.finish(LAST_WORDS_S)


def _interruptions() -> tuple[type[BaseException], ...]:
    """What an interrupted command ends with; asyncio's own only where a loop ran, since loading it takes its time."""
    loaded = sys.modules.get("asyncio")
    return (KeyboardInterrupt,) if loaded is None else (KeyboardInterrupt, loaded.CancelledError)


def _drop_output() -> None:
    """What is still to be written goes nowhere: else the interpreter tries once more as it ends, and complains."""
    if sys.stdout is not None:
        with contextlib.suppress(OSError, ValueError):  # a stream without a descriptor has nothing to drop
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _need_terminal() -> None:
    if not (sys.stdin is not None and sys.stdin.isatty() and sys.stdout is not None and sys.stdout.isatty()):
        raise UsageError(
            "the console needs a terminal", remedy="`nightdeck status`, `nightdeck --help`: commands need none"
        )


def _dispatch(args: argparse.Namespace, world: World, out: Out) -> int:
    name = args.command or ""
    if name == "":
        _need_terminal()
        return world.console()
    if name == "lab":
        if not (args.serve or args.list or args.set):
            _need_terminal()
        return world.lab(args)
    if name == "replay":
        if not (args.events or args.json):
            return world.play(args.what)
        name = "replay events"
    if name == "cluster":
        name = f"cluster {args.cluster_command}"
    if name == "image":
        name = f"image {args.image_command}"
    if name == "logs" and args.boot:
        name = "logs of a boot"
    world.heed_settings()  # the same rule for every command, whether it needs them or not
    if name in SYNC:
        return int(command(SYNC[name])(args, world, out))
    return run(command(ASYNC[name])(args, world, out))


def run(work: Awaitable[int]) -> int:
    """Run to the end; SIGINT, SIGTERM and SIGHUP cancel the work, which then cleans up before it lets go."""
    import asyncio

    async def guarded() -> int:
        task = asyncio.current_task()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGHUP):
            with contextlib.suppress(NotImplementedError):  # a loop of another platform
                loop.add_signal_handler(number, _cancel, task)
        return await work

    return asyncio.run(guarded())


def _cancel(task: asyncio.Task[Any] | None) -> None:
    if task is not None:
        task.cancel()
