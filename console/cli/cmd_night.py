"""`night`: a queue of trials that runs without a terminal, to be looked at, stopped, and gone on with."""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

from console.base.errors import ExitCode, FileError, NightdeckError, UsageError
from console.boot.figures import ready_text
from console.boot.night_model import Night, Phase
from console.boot.spread import spread_of_json
from console.cli.night_unit import print_unit_of
from console.cli.out import Out
from console.cli.world import World
from console.files.night_store import LOG, NightStore
from console.files.read import read_text
from console.services.night_cut import cut_of, cut_short, was_rebooted

if TYPE_CHECKING:
    from console.services.night_plan import Plan

VERBS = ("status", "attach", "stop", "resume", "list", "check")
START_LIMIT_S = 20.0
# A controller that dies is begun again so often in all; the night itself tries a run no more than twice.
BEGIN_AGAIN = 5
BEGIN_AGAIN_S = 2.0
# A controller's status where the night is over and the disk has no room for that word. No other exit has it.
OVER = 97
# -P: the folder that a night is begun in comes first in `sys.path` otherwise, and a `console/` in it, or a module of
# the standard library's name, would be run all night.
AGAIN = (sys.executable, "-P", "-m", "console")


async def night(args: argparse.Namespace, world: World, out: Out) -> int:
    store = NightStore(world.state_folder / "nights")
    verb, *rest = args.words or ["status"]
    if args.run_id:
        return _keep(args.run_id, store, args) if args.keep_alive else await _run(args.run_id, store, args, world, out)
    if verb == "status":
        return _status(store, rest, out)
    if verb == "list":
        return _list(store, out)
    if verb == "attach":
        return await _attach(store, store.find(rest[0] if rest else None), out)
    if verb == "stop":
        return _stop(store, out)
    if args.print_unit:
        unit, how = print_unit_of()
        out.data({"schema": 1, "unit": unit, "how": how}) if out.as_json else _lines(unit, how, out)
        return ExitCode.DONE
    if args.read_only:
        raise UsageError("`night` changes nodes, and this is --read-only")
    if verb != "check":
        os.close(store.lock("-"))  # NightBusy, before anything is made for a second night
    if verb == "resume":
        if args.if_interrupted and cut_short(store) is None:
            return ExitCode.DONE
        from console.services.night_setup import go_on

        ident = store.find(rest[0] if rest else None)
        go_on(store, ident)  # over or damaged: say it here, not in a log
        _as_begun(args, store.begun_with(ident))
    else:
        ident = _new(store, Path(rest[0] if verb == "check" and rest else verb), verb == "check", args, world, out)
        if not ident:
            return ExitCode.DONE
    if args.foreground:
        code = await _run(ident, store, args, world, out)
        return ExitCode.FAILED if code == OVER else code
    return await _detach(ident, store, args, out)


def _lines(unit: str, how: str, out: Out) -> None:
    """The unit alone is the data: stdout may go into a file."""
    for line in unit.splitlines():
        out.line(line)
    out.flush()
    out.say(how)


def _new(store: NightStore, path: Path, only_check: bool, args: argparse.Namespace, world: World, out: Out) -> str:
    """Read the queue and all its recipes; a night's folder, unless it is only to be checked."""
    from console.files.night_queue import load_queue
    from console.services.night_plan import plan_json
    from console.services.night_setup import check_changes, set_up

    now = time.time()
    queue = load_queue(path, now)
    for warning in queue.warnings:
        out.say(f"{queue.file}: {warning}")
    if only_check:
        for name in dict.fromkeys([queue.rules.baseline, *(s.recipe for s in queue.steps)]):
            if name:
                world.recipe(name)
        check_changes(queue, world.recipe)
        begin = "now" if queue.rules.start_after is None else _when(queue.rules.start_after)
        out.line(f"{queue.name}: {len(queue.steps)} steps, from {begin} to {_when(queue.rules.hard_end)}")
        return ""
    try:
        text = read_text(path)
    except FileError as error:
        raise UsageError(str(error)) from error
    state, plan = set_up(queue, text, store, world.recipe, now)
    store.write_begun_with(state.id, {key: _whole(key, value) for key, value in _options(args)})
    store.write(state, {"at": now, "waiting": "", **plan_json(plan)})
    return state.id


async def _run(ident: str, store: NightStore, args: argparse.Namespace, world: World, out: Out) -> int:
    """The night itself, in this process."""
    import asyncio

    from console.services.night import NightRunner
    from console.services.night_setup import go_on
    from console.services.system_clock import SystemClock

    descriptor = store.lock(ident)
    try:
        state, plan = go_on(store, ident)
        rebooted = was_rebooted(store.read(ident))
        async with world.hub() as hub:
            await hub.settled(timeout=30.0)
            runner = NightRunner(hub, plan, state, store, SystemClock(), notify=hub.notify, rebooted=rebooted)
            loop = asyncio.get_running_loop()
            for number in (signal.SIGTERM, signal.SIGINT):
                with contextlib.suppress(NotImplementedError):
                    loop.add_signal_handler(number, runner.ask_stop)
            with contextlib.suppress(NotImplementedError):
                loop.add_signal_handler(signal.SIGHUP, _no_terminal)
            runner.save()
            done = await runner.run()
            await hub.notified()
    finally:
        os.close(descriptor)
    if not runner.saved:
        out.say(f"the night is over, which the disk had no room for: {done.why}")
        return OVER
    _tell(store.read(ident), out)
    return _code(done, plan)


def _no_terminal() -> None:
    """A lost terminal is nothing to a night: what it would still be told goes nowhere."""
    null = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(null, descriptor)
    os.close(null)


def _code(done: Night, plan: Plan) -> int:
    if plan.rules.baseline and done.left_serving != plan.rules.baseline:
        return ExitCode.FAILED
    return ExitCode.DONE if all(r.outcome == "served" for r in done.results) else ExitCode.PARTLY


async def _detach(ident: str, store: NightStore, args: argparse.Namespace, out: Out) -> int:
    """A keeper with a session of its own: neither a closed terminal nor a dropped SSH connection ends it, and it begins
    the controller again if that dies."""
    import asyncio

    log = store.folder(ident) / "night.out"
    child = _child([*_globals(args), "night", "--run-id", ident, "--keep-alive"], log)
    limit = time.monotonic() + START_LIMIT_S
    while (running := store.running()) is None or running[1] != ident:
        if child.poll() is not None:
            said = log.read_text("utf-8", "replace").strip().splitlines()
            raise UsageError(f"the night did not start: {said[-1] if said else 'it ended at once'}", where=str(log))
        if time.monotonic() > limit:
            raise UsageError(f"the night has not started in {START_LIMIT_S:.0f} s", where=str(log))
        await asyncio.sleep(0.1)
    if out.as_json:
        pids = {"pid": running[0], "keeper_pid": child.pid}
        out.data({"schema": 1, "night": ident, **pids, "folder": str(store.folder(ident))})
    else:
        out.line(f"night {ident} runs by itself (process {running[0]}); this terminal can go")
        out.line("  nightdeck night status    nightdeck night attach    nightdeck night stop")
    return ExitCode.DONE


def _keep(ident: str, store: NightStore, args: argparse.Namespace) -> int:
    """Run the controller, and again where it ends before the night does, however it ended: the baseline must come
    back. A reboot ends this too; then `resume --if-interrupted`, as a start-up command, goes on."""
    for again in range(BEGIN_AGAIN + 1):
        child = subprocess.Popen([*AGAIN, *_globals(args), "night", "--run-id", ident])
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, _to(child))
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        code = child.wait()
        if code == OVER:
            return ExitCode.FAILED
        if _phase(store, ident) == Phase.DONE:
            return code if code >= 0 else ExitCode.FAILED
        how = f"by signal {-code}" if code < 0 else f"with status {code}"
        tries = f"begun again ({again + 1} of {BEGIN_AGAIN})" if again < BEGIN_AGAIN else "given up"
        try:
            store.log(ident, f"the controller ended {how} before the night did: {tries}", time.time())
        except NightdeckError as error:  # the night matters more than its log
            Out(as_json=False).say(f"{error}: the controller ended {how}: {tries}")
        if again < BEGIN_AGAIN:
            time.sleep(BEGIN_AGAIN_S)
    return ExitCode.FAILED


def _phase(store: NightStore, ident: str) -> object:
    try:
        return store.read(ident).get("phase")
    except NightdeckError:  # a state that cannot be read says nothing; whoever begins again says what is wrong with it
        return None


def _to(child: subprocess.Popen[bytes]) -> Callable[[int, FrameType | None], None]:
    return lambda number, _frame: child.send_signal(number)


def _child(words: list[str], log: Path) -> subprocess.Popen[bytes]:
    with log.open("ab") as stream:
        return subprocess.Popen(
            [*AGAIN, *words],
            stdin=subprocess.DEVNULL,
            stdout=stream,
            stderr=stream,
            start_new_session=True,
        )


OPTIONS = (
    ("cluster", "--cluster"),
    ("recipes", "--recipes"),
    ("speed", "--speed"),
    ("scenario", "--scenario"),
    ("lab_nodes", "--lab-nodes"),
)


def _options(args: argparse.Namespace) -> list[tuple[str, Any]]:
    return [(key, value) for key, _ in OPTIONS if (value := getattr(args, key)) is not None]


def _globals(args: argparse.Namespace) -> list[str]:
    given = dict(_options(args))
    return [word for key, flag in OPTIONS if key in given for word in (flag, str(given[key]))]


def _whole(key: str, value: Any) -> Any:
    """A path that still holds when the night is gone on with from another folder."""
    is_path = key == "recipes" or (key == "cluster" and value not in ("lab", "local"))
    return str(Path(value).absolute()) if is_path else value


def _as_begun(args: argparse.Namespace, begun: Mapping[str, Any]) -> None:
    """A night that is gone on with has the options that it was begun with, but those that are named now."""
    for key, _ in OPTIONS:
        if getattr(args, key) is None:
            setattr(args, key, begun.get(key))


def _status(store: NightStore, rest: list[str], out: Out) -> int:
    ident = store.find(rest[0] if rest else None)
    row = store.read(ident)
    running = store.running()
    alive = running is not None and running[1] == ident
    if out.as_json:
        out.data(
            {
                **row,
                "alive": alive,
                "rebooted": not alive and was_rebooted(row),
                "pid": running[0] if running is not None and alive else None,
            }
        )
        return ExitCode.DONE
    if not alive and row.get("phase") != "done":
        out.line(cut_of(row, ident, store).sentence(time.time()))
    _tell(row, out)
    return ExitCode.DONE


def _list(store: NightStore, out: Out) -> int:
    rows = [store.read(name) for name in store.nights()]
    if out.as_json:
        out.data({"schema": 1, "nights": rows})
        return ExitCode.DONE
    table = [[r["id"], r.get("name", ""), r["phase"], str(len(r["results"])), r.get("why", "")] for r in rows]
    out.table(["night", "name", "phase", "runs", "why"], table, right=[3])
    return ExitCode.DONE


def _tell(row: Mapping[str, Any], out: Out) -> None:
    rules, results = row["rules"], row["results"]
    out.line(f"night {row['id']} {row.get('name', '')}: {row['phase']}, hard end {_when(rules['hard_end'])}")
    if row.get("waiting") and row["phase"] != Phase.DONE:
        out.line(f"  waiting: {row['waiting']}")
    if row.get("running"):
        out.line(f"  now: {row['running']['label']} ({row['running']['recipe']})")
    for r in results:
        rate = _rate(r)
        ready = "" if r["ready_s"] is None else f", ready after {ready_text(r['ready_s'])}"
        why = f": {r['why']}" if r["why"] else ""
        out.line(f"  {r['run']:>2} {r['label']}: {r['outcome'].replace('_', ' ')}{ready}{rate}{why}")
    if row.get("why"):
        out.line(f"  {row['why']}")
    if row["phase"] == Phase.DONE:
        out.line(f"  left serving: {row.get('left_serving') or 'nothing'}")


def _rate(result: Mapping[str, Any]) -> str:
    from console.cli.cmd_measure import words as spread_words

    levels = (result.get("measure") or {}).get("levels") or []
    found = [(v["concurrency"], spread_of_json(v["total_tokens_per_s"])) for v in levels]
    return "".join(f", {spread_words(s)} tokens/s at {n}" for n, s in found if s is not None)


def _stop(store: NightStore, out: Out) -> int:
    running = store.running()
    if running is None:
        raise UsageError("no night runs on this machine")
    os.kill(running[0], signal.SIGTERM)
    out.line(f"night {running[1]} was asked to stop: it ends its trial and restores the baseline (`night attach`)")
    return ExitCode.DONE


async def _attach(store: NightStore, ident: str, out: Out) -> int:
    """The night's log as it grows, until it is over. Interrupting this ends only the looking."""
    import asyncio

    path = store.folder(ident) / LOG
    at = 0
    while True:
        running = store.running()
        alive = running is not None and running[1] == ident
        at = _pour(path, at, out)
        if not alive:
            _tell(store.read(ident), out)
            return ExitCode.DONE
        await asyncio.sleep(0.5)


def _pour(path: Path, at: int, out: Out) -> int:
    try:
        with path.open("rb") as file:
            file.seek(at)
            data = file.read()
    except FileNotFoundError:
        return at
    whole = data[: data.rfind(b"\n") + 1]
    for line in whole.splitlines():
        out.line(line.decode("utf-8", "replace"))
    out.flush()
    return at + len(whole)


def _when(at: float) -> str:
    """A moment in this machine's own time, with the zone said, and in UTC."""
    local = datetime.fromtimestamp(at).astimezone()
    return f"{local:%a %H:%M %Z} ({datetime.fromtimestamp(at, UTC):%H:%M} UTC)"
