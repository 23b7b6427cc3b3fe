"""The composition root: settings, files, cluster, transport and services put together under a face."""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from console.base.errors import NightdeckError, UsageError
from console.cli.main import main as cli_main
from console.files.places import find_places
from console.services.disk_shelf import DiskShelf
from console.services.system_clock import SystemClock

if TYPE_CHECKING:
    from console.base.findings import Finding
    from console.cluster.model import Cluster
    from console.files.settings import Settings
    from console.recipe.model import Recipe
    from console.services.console_hub import ConsoleHub
    from console.services.hub import BootSummary, HubApi, RecipeProblem
    from console.services.ledger import Ledger
    from console.services.recorder import Recorder
    from console.services.replay import ReplayHub
    from console.services.vigil import VigilOptions
    from console.transport.base import Fleet

# Each part is imported where it is first needed: a command that only reads a file is done before the second floor would
# be loaded, one that asks nodes connects meanwhile.

CONNECT_AHEAD_S = 10.0
# Between the two samples of a command that looks once: rates need two, and the command waits for the second.
ONE_LOOK_S = 0.2


class DiskWorld:
    """`World` for one command on this machine."""

    def __init__(self, args: argparse.Namespace) -> None:
        self._args = args
        self._places = find_places(os.environ, work=Path.cwd())
        self._clock = SystemClock()
        self._told: set[str] = set()
        _ = self._shelf  # a wrong --recipes is told before anything is done

    @property
    def _shelf(self) -> DiskShelf:
        """By the options as they are now: a night that is gone on with brings its own."""
        extra = Path(self._args.recipes) if self._args.recipes else None
        if extra is not None and not extra.is_dir():
            raise UsageError(f"--recipes: no folder {extra}")
        return DiskShelf(self._places, extra)

    def settings(self) -> Settings:
        """Wrong settings are told, and their defaults stand in."""
        from console.files.settings import load_settings

        read = load_settings(self._places)
        texts = (*(str(e) for e in read.errors), *(f.message for f in read.findings))
        for text in [t for t in texts if t not in self._told]:  # once, however often they are read
            self._told.add(text)
            _say(text)
        return read.settings

    def heed_settings(self) -> None:
        if os.path.lexists(self._places.settings_file):
            self.settings()

    def recipes(self) -> tuple[Sequence[Recipe], Sequence[RecipeProblem]]:
        return self._shelf.load()

    def recipe(self, name: str) -> Recipe:
        return self._shelf.get(name)

    def boots(self) -> Sequence[BootSummary]:
        return self.ledger().boots()

    def ledger(self) -> Ledger:
        from console.files.journal import Journal
        from console.services.ledger import Ledger

        return Ledger(Journal(self._places.boots))

    @property
    def state_folder(self) -> Path:
        return self._places.state

    def cluster(self) -> Cluster:
        """The cluster that is meant. Raises FileError, UsageError."""
        from console.cluster.parse import local_cluster
        from console.files.clusters import find_cluster, load_cluster

        if name := self._args.cluster:
            return local_cluster() if name == "local" else load_cluster(Path(name))
        found = find_cluster(self._places)
        if found is None:
            raise UsageError(
                f"there is no cluster file ({self._places.cluster_file})",
                remedy="`nightdeck cluster init HOST…` writes one; or --cluster lab, --cluster local, --cluster FILE",
            )
        return found

    def now(self) -> float:
        return self._clock.wall()

    def hub(
        self, *, watch: bool = True, follow: bool = True, record: Path | None = None
    ) -> AbstractAsyncContextManager[HubApi]:
        return self._hub(watch=watch, follow=follow, record=record)

    @asynccontextmanager
    async def _hub(self, *, watch: bool, follow: bool, record: Path | None) -> AsyncIterator[HubApi]:
        import asyncio

        async with self._cluster_in_use() as cluster, self._connecting(cluster) as fleet:
            await asyncio.to_thread(_load_hub)
            hub = self.make_hub(cluster, follow=follow, record=record, fleet=fleet)
            try:
                if watch:
                    await hub.start()
                yield hub
            finally:
                await hub.close()

    @asynccontextmanager
    async def _connecting(self, cluster: Cluster) -> AsyncIterator[Fleet]:
        """Links that open by themselves from now on. How that went, each user of a link hears for itself."""
        import asyncio

        fleet = self._fleet(cluster)

        async def connect(name: str) -> None:
            with contextlib.suppress(NightdeckError):
                await fleet.link(name).connect(timeout=CONNECT_AHEAD_S)

        ahead = [asyncio.create_task(connect(name), name=f"connect {name}") for name in fleet.names]
        try:
            yield fleet
        finally:
            for task in ahead:
                task.cancel()
            await asyncio.gather(*ahead, return_exceptions=True)
            await fleet.close()

    def _fleet(self, cluster: Cluster) -> Fleet:
        from console.transport.pool import make_fleet

        return make_fleet(cluster, self._clock)

    @asynccontextmanager
    async def _cluster_in_use(self) -> AsyncIterator[Cluster]:
        if self._args.cluster != "lab":
            yield self.cluster()
            return
        from console.files.clusters import load_cluster
        from console.lab.embedded import lab
        from console.lab.registry import find_running_lab

        own = any(v is not None for v in (self._args.speed, self._args.scenario, self._args.lab_nodes))
        serving = None if own else await find_running_lab()
        if serving is not None:
            yield load_cluster(serving)
            return
        extra = (Path(self._args.recipes),) if self._args.recipes else ()
        async with lab(
            nodes=self._args.lab_nodes or 8,
            speed=self._args.speed,
            scenario=self._args.scenario or "healthy",
            recipes=(*(p.folder for p in self._places.recipe_folders() if p.folder.is_dir()), *extra),
        ) as handle:
            yield load_cluster(handle.cluster_file)

    def make_hub(
        self, cluster: Cluster, *, follow: bool = True, record: Path | None = None, fleet: Fleet | None = None
    ) -> ConsoleHub:
        import socket

        from console.files.help_cache import HelpCache
        from console.files.journal import Journal
        from console.services.console_hub import ConsoleHub
        from console.services.ledger import Ledger
        from console.services.recorder import Recorder

        settings = self.settings()
        recorder = Recorder(record, cluster, self._clock, _say) if record is not None else None
        return ConsoleHub(
            cluster=cluster,
            fleet=self._fleet(cluster) if fleet is None else fleet,
            shelf=self._shelf,
            ledger=Ledger(
                Journal(self._places.boots), keep=settings.keep_boots, keep_bytes=int(settings.keep_gib * 2**30)
            ),
            clock=self._clock,
            read_only=self._args.read_only or settings.read_only,
            follow=follow,
            interval_s=settings.poll_interval_s if follow else min(ONE_LOOK_S, settings.poll_interval_s),
            log_lines=settings.log_lines,
            by=f"{_user()}@{socket.gethostname()}",
            vigil=self._vigil(settings, recorder, follow=follow),
            helps=HelpCache(self._places.state / "help"),
        )

    def _vigil(self, settings: Settings, recorder: Recorder | None, *, follow: bool) -> VigilOptions:
        """Alarms leave only a hub that goes on watching, and never because of a lab."""
        from console.services.vigil import VigilOptions
        from console.services.ways_out import make_ways

        real = follow and self._args.cluster != "lab"
        ways = make_ways(settings.alarms.ways, write=None, env=os.environ) if real else ()
        return VigilOptions(settings.guard, settings.alarms, ways, os.environ, recorder)

    def replay(self, what: str) -> ReplayHub:
        from console.services.replay import BY_LENGTH, ReplayHub
        from console.services.replay_rows import boot, recording

        path = Path(what)
        source = recording(path) if path.is_file() else boot(self.ledger().index.find(what).entry.path)
        return ReplayHub(source, self._clock, themes=self._shelf.themes(), speed=BY_LENGTH)

    def play(self, what: str) -> int:
        import asyncio

        settings = self.settings()
        choose_colours(self._args.color or settings.color)
        return asyncio.run(self._play(self.replay(what), settings))

    async def _play(self, hub: ReplayHub, settings: Settings) -> int:
        from console.files.faults import FaultFile
        from console.tui.app import run_console_async

        try:
            return await run_console_async(
                hub,
                theme=self._args.theme or settings.theme,
                keymap=settings.keys,
                ascii=self._args.ascii or settings.glyphs == "ascii",
                keep_fault=FaultFile(self._places.state / "faults.log").keep,
            )
        finally:
            await hub.close()

    async def discover(self, args: argparse.Namespace) -> tuple[Cluster, str, Sequence[Finding]]:
        from console.cluster.ranges import RangeError, expand
        from console.cluster.render import render_cluster
        from console.services.cluster_init import discover

        hosts: list[str] = []
        for pattern in args.hosts:
            try:
                hosts += expand(pattern)
            except RangeError as error:
                raise UsageError(f"{pattern} {error}") from error
        cluster, findings = await discover(
            hosts,
            name=args.name,
            user=args.user,
            ssh_config=args.ssh_config,
            container_cli=args.container_cli,
            make_fleet=self._fleet,
        )
        return cluster, render_cluster(cluster), findings

    async def check(self) -> Sequence[Finding]:
        from console.services.cluster_init import check

        async with self._cluster_in_use() as cluster:
            fleet = self._fleet(cluster)
            try:
                return await check(fleet, cluster)
            finally:
                await fleet.close()

    def write_cluster(self, text: str, output: str | None, *, force: bool) -> str:
        path = Path(output) if output else self._places.cluster_file
        if path.exists() and not force:
            raise UsageError(f"{path} is there already", remedy="--force overwrites it, -o FILE writes another")
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_name(path.name + ".part")
        part.write_text(text, encoding="utf-8")
        part.replace(path)
        return str(path)

    def console(self) -> int:
        """The console on the chosen cluster; where there is none, it says what there is to choose."""
        from console.transport.turns import run_in_turns

        settings = self.settings()
        choose_colours(self._args.color or settings.color)
        return run_in_turns(self._console(settings))

    async def _console(self, settings: Settings) -> int:
        import asyncio

        from console.base.garbage import Portions, kept_for_good

        async with self._cluster_in_use() as cluster, self._connecting(cluster) as fleet:
            with kept_for_good():
                await asyncio.to_thread(_load_console)
            garbage = Portions()
            garbage.begin()
            from console.files.faults import FaultFile
            from console.files.night_store import NightStore
            from console.services.night_cut import told
            from console.tui.app import run_console_async

            hub = self.make_hub(cluster, fleet=fleet)
            if cut := told(NightStore(self._places.state / "nights"), self.now()):
                hub.tell_of(cut)
            try:
                return await run_console_async(
                    hub,
                    theme=self._args.theme or settings.theme,
                    keymap=settings.keys,
                    ascii=self._args.ascii or settings.glyphs == "ascii",
                    keep_fault=FaultFile(self._places.state / "faults.log").keep,
                )
            finally:
                garbage.end()
                await hub.close()

    def lab(self, args: argparse.Namespace) -> int:
        if args.list:
            from console.lab.scenarios import SCENARIOS

            sys.stdout.writelines(f"{scenario.name:<20} {scenario.summary}\n" for scenario in SCENARIOS.values())
            return 0
        if args.set:
            from console.lab.ctl import main as control
            from console.lab.registry import registered_folder

            return int(control([str(registered_folder()), "set", args.set]))
        if args.serve:
            from console.lab.main import main as lab_main

            return int(lab_main(["--serve", *(["--json"] if args.json else []), *_lab_words(args)]))
        args.cluster = "lab"
        if args.speed is None and "NIGHTDECK_LAB_SPEED" not in os.environ:
            from console.lab.clock import SPEED_SCREEN

            args.speed = SPEED_SCREEN
        return self.console()


def _load_hub() -> None:
    """In a thread: the loop connects meanwhile, and a node's answer takes as long as the loading."""
    import console.files.help_cache
    import console.files.recipes
    import console.files.settings
    import console.services.console_hub
    import console.services.keeper
    import console.services.model_check_measured
    import console.services.recorder
    import console.services.ways_out  # noqa: F401


def _load_console() -> None:
    _load_hub()
    import console.tui.app  # noqa: F401


def _lab_words(args: argparse.Namespace) -> list[str]:
    pairs = [("--nodes", args.lab_nodes), ("--speed", args.speed), ("--scenario", args.scenario)]
    words = [word for flag, value in pairs if value is not None for word in (flag, str(value))]
    return [*words, "--recipes", args.recipes] if args.recipes else words


def choose_colours(color: str) -> None:
    """What the terminal can show, for Textual, which reads it when it is imported."""
    if color == "none":
        os.environ["NO_COLOR"] = "1"
    elif color != "auto":
        os.environ["TEXTUAL_COLOR_SYSTEM"] = {"16": "standard"}.get(color, color)


def _say(text: str) -> None:
    sys.stderr.write(f"nightdeck: {text}\n")


def _user() -> str:
    import getpass

    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return str(os.getuid())


def main(argv: list[str] | None = None) -> int:
    """The command `nightdeck`."""
    return cli_main(sys.argv[1:] if argv is None else argv, DiskWorld)


__all__ = ["DiskWorld", "main"]
