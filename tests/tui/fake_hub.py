"""A hub of scripted snapshots: what a face is tested against, and what the demo shows."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from console.base.absent import Absent
from console.base.errors import NightdeckError
from console.base.theme import ThemeColours
from console.boot.compare import Comparison, Record, Row, Section
from console.boot.state import BootState, Phase
from console.plan.model import Plan
from console.services.hub import BootSummary, ControlsView, LogBatch, LogLine, NodeView, Notice, Snapshot
from console.services.replay import ReplayHub
from tests.tui import fake_values as v
from tests.tui.replays import replay_hub

SCENARIOS = (
    "booting", "ready", "failed", "starting", "stopped", "stopping", "empty", "farm", "lost", "problems", "deadline",
    "launch_failed", "hostile", "waiting", "local",
)  # fmt: skip
EVIL = "\x1b[31mred\x1b]0;owned\x07[bold red]markup[/] [link=x]\u202e\x9b2J\x00"


class FakeHub:
    """Implements HubApi. Time stands still unless a test moves `time`."""

    def __init__(self, scenario: str = "booting", *, read_only: bool = False, capacity: int = 50_000) -> None:
        self.time = v.T0
        self.clock: Callable[[], float] | None = None
        self.calls: list[tuple[str, Any]] = []
        self.lines: list[LogLine] = []
        self.first_seq = 0
        self.capacity = capacity
        self.subscribers: list[Callable[[], None]] = []
        self.blocked = False
        self.plan_error: NightdeckError | None = None
        self.plan_hold: asyncio.Event | None = None
        self.plan_made: Plan | None = None
        self.replay_error: NightdeckError | None = None
        self.terminal: Callable[[str], None] | None = None
        self.changes: tuple[str, ...] = ("--gpu-memory-utilization 0.91 → 0.80",)
        self.hold: asyncio.Event | None = None
        self.holds_now: ControlsView | None = None  # what the nodes say when they are asked
        self.summaries: tuple[BootSummary, ...] = v.ledger()
        self.theme_list: tuple[ThemeColours, ...] = ()
        self._snapshot = self._scene(scenario, read_only)
        if self._snapshot.boot is not None:
            self.add(v.log_lines(400))

    def _scene(self, scenario: str, read_only: bool) -> Snapshot:
        now = self.time
        boots: dict[str, BootState] = {
            "booting": v.booting(now), "ready": v.ready(now), "failed": v.failed(now), "starting": v.starting(now),
            "stopped": v.stopped(now), "lost": v.booting(now), "problems": v.booting(now),
        }  # fmt: skip
        boots["deadline"] = replace(v.booting(now), launched_at=now - 3700.0, asks=("deadline",))
        boots["launch_failed"] = replace(v.failed(now), asks=("launch_failed",))
        boots["stopping"] = replace(
            v.stopped(now), phase=Phase.STOPPING, stop_result=None, stop_results={"dgx1": ("stopped", "")}
        )
        boots["farm"] = v.booting(now, ranks=128)
        evil = v.booting(now)
        ranks = tuple(replace(r, node=EVIL, container=EVIL, trouble=EVIL) for r in evil.ranks)
        boots["hostile"] = replace(evil, recipe=EVIL, title=EVIL, ranks=ranks, changed=(EVIL,), smoke_text=EVIL)
        boot = boots.get(scenario)
        count = 128 if scenario == "farm" else 1 if scenario == "local" else 8
        nodes: Sequence[NodeView] = v.views(count, idle=boot is None)
        recipes, problems = v.RECIPES, ((v.PROBLEM,) if scenario in ("problems", "hostile") else ())
        if scenario == "empty":
            recipes = v.RECIPES[:1]
        if scenario == "waiting":
            nodes = [
                replace(n, state="waiting", age_s=Absent("no sample yet"), sample=Absent("no sample yet"))
                for n in nodes
            ]
        if scenario in ("lost", "failed", "farm"):
            nodes = [self._trouble(n) for n in nodes]
        if scenario == "hostile":
            nodes = [
                replace(n, node=replace(n.node, name=f"{EVIL}{i}"), why=EVIL, trouble=EVIL) for i, n in enumerate(nodes)
            ]
            recipes = tuple(replace(r, slug=EVIL + r.slug, title=EVIL, model=EVIL) for r in recipes)
            problems = (replace(v.PROBLEM, message=EVIL, key=EVIL, file=EVIL),)
        live = () if boot is None or boot.phase.over else (boot,)
        return Snapshot(
            1, now, v.cluster(count), tuple(nodes), boot, live, tuple(recipes), problems, read_only=read_only
        )

    @staticmethod
    def _trouble(view: NodeView) -> NodeView:
        if view.node.name == "dgx7":
            return replace(view, state="late", age_s=4.0)
        if view.node.name == "dgx8":
            return replace(
                view, state="lost", age_s=73.0, trouble="silent",
                why="dgx8 accepts TCP but sshd says nothing: the node may be wedged",
                remedy="look at its console or BMC; do not hammer it",
            )  # fmt: skip
        return view

    # -- what tests turn ---------------------------------------------------------------------------------------

    def update(self, **changes: Any) -> None:
        self._snapshot = replace(self._snapshot, version=self._snapshot.version + 1, at=self.now(), **changes)
        for changed in list(self.subscribers):
            changed()

    def update_boot(self, **changes: Any) -> None:
        assert self._snapshot.boot is not None
        boot = replace(self._snapshot.boot, **changes)
        self.update(boot=boot, boots=() if boot.phase.over else (boot,))

    def set_boot(self, boot: BootState | None) -> None:
        self.update(boot=boot, boots=() if boot is None or boot.phase.over else (boot,))

    def say(self, text: str, severity: str = "warn") -> None:
        notices = self._snapshot.notices
        self.update(notices=(*notices, Notice(len(notices) + 1, self.now(), severity, text)))

    def add(self, lines: Sequence[LogLine]) -> None:
        self.lines.extend(lines)
        if len(self.lines) > self.capacity:
            cut = len(self.lines) - self.capacity
            del self.lines[:cut]
            self.first_seq += cut

    @property
    def next_seq(self) -> int:
        return self.first_seq + len(self.lines)

    # -- HubApi ------------------------------------------------------------------------------------------------

    @property
    def read_only(self) -> bool:
        return self._snapshot.read_only

    @property
    def by(self) -> str:
        return "me@here"

    def snapshot(self) -> Snapshot:
        return self._snapshot

    def subscribe(self, changed: Callable[[], None]) -> Callable[[], None]:
        self.subscribers.append(changed)
        return lambda: self.subscribers.remove(changed)

    def now(self) -> float:
        return self.clock() if self.clock is not None else self.time

    def log(self, since_seq: int, *, limit: int = 5000) -> LogBatch:
        lost = max(0, self.first_seq - since_seq)
        at = max(since_seq, self.first_seq) - self.first_seq
        lines = tuple(self.lines[at : at + limit])
        return LogBatch(lines, self.first_seq + at + len(lines), lost)

    def series(self, node: str, metric: str, *, seconds: float, points: int) -> Sequence[float | None]:
        del metric, seconds
        shift = sum(node.encode()) % 5
        return [
            None
            if i == 3 and shift == 2
            else v.TOTAL * min(0.82, 0.1 + 0.8 / (1 + math.exp(-(i - points / 2 + shift) / 2)))
            for i in range(points)
        ]

    async def start(self) -> None:
        self.calls.append(("start", None))

    async def close(self) -> None:
        self.calls.append(("close", None))

    def reload_recipes(self) -> None:
        self.calls.append(("reload", None))

    async def plan(
        self, recipe: str, *, nodes: int | None = None, head: str | None = None, fresh: bool = False
    ) -> Plan:
        del nodes, head
        if fresh:
            self.calls.append(("asked afresh", recipe))
        if self.plan_hold is not None:
            await self.plan_hold.wait()
        if self.plan_error is not None:
            raise self.plan_error
        return self.plan_made or v.plan(recipe, blocked=self.blocked)

    async def launch(
        self,
        recipe: str,
        *,
        nodes: int | None = None,
        head: str | None = None,
        override: Sequence[str] = (),
        keep_on_failure: bool = True,
    ) -> BootState:
        del nodes, head, keep_on_failure
        self.calls.append(("launch", (recipe, tuple(override))))
        self.update(job=f"launching {recipe}")
        try:
            if self.hold is not None:
                await self.hold.wait()
        except asyncio.CancelledError:
            self.calls.append(("launch cancelled", recipe))
            raise
        finally:
            self.update(job="")
        boot = v.booting(self.now(), number=12)
        self.set_boot(boot)
        return boot

    async def stop(self, deployment: str | None = None, *, grace_s: float = 30.0) -> Mapping[str, tuple[str, str]]:
        del grace_s
        self.calls.append(("stop", deployment))
        results = v.stopped(self.now()).stop_results
        if self._snapshot.boot is None:
            return results
        self.update_boot(phase=Phase.STOPPED, stop_results=results, stop_result="partly")
        return results

    async def restart(self, recipe: str | None = None, *, override: Sequence[str] = ()) -> BootState:
        self.calls.append(("restart", (recipe, tuple(override))))
        return v.booting(self.now(), number=12)

    async def extend_deadline(self, seconds: float) -> None:
        self.calls.append(("extend", seconds))
        boot = self._snapshot.boot
        assert boot is not None
        self.update_boot(deadline_s=boot.deadline_s + seconds, asks=())

    async def roll_back(self) -> Mapping[str, tuple[str, str]]:
        self.calls.append(("roll_back", None))
        self.update_boot(asks=())
        return {"dgx1": ("stopped", "")}

    async def keep(self) -> None:
        self.calls.append(("keep", None))
        self.update_boot(asks=())

    async def smoke(self) -> Mapping[str, Any]:
        self.calls.append(("smoke", None))
        return {"ok": True, "text": "391"}

    async def note(self, text: str) -> None:
        self.calls.append(("note", text))

    def changes_since_last(self, recipe: str) -> Sequence[str]:
        del recipe
        return self.changes

    def boots(self) -> Sequence[BootSummary]:
        return self.summaries

    def themes(self) -> Sequence[ThemeColours]:
        return self.theme_list

    async def open_replay(self, boot: str) -> ReplayHub:
        self.calls.append(("replay", boot))
        if self.replay_error is not None:
            raise self.replay_error
        return replay_hub()

    async def look_at_controls(self) -> ControlsView:
        self.calls.append(("look at controls", None))
        if self.holds_now is not None:
            self.update(controls=replace(self.holds_now, at=self.now()))
        return self._snapshot.controls

    async def hold_controls(self, *, take_over: bool = False, doing: str = "") -> ControlsView:
        self.calls.append(("hold controls", take_over))
        self.update(controls=ControlsView("mine", "me@here", lasting=True), read_only=False)
        return self._snapshot.controls

    async def ask_controls(self) -> ControlsView:
        self.calls.append(("ask controls", None))
        self.update(controls=replace(self._snapshot.controls, state="asking"))
        return self._snapshot.controls

    async def release_controls(self) -> ControlsView:
        self.calls.append(("release controls", None))
        self.update(controls=ControlsView("free"))
        return self._snapshot.controls

    def use_terminal(self, write: Callable[[str], None]) -> None:
        self.terminal = write

    async def compare_boots(self, *names: str) -> Comparison:
        self.calls.append(("compare", names))
        curve = tuple((10.0 * i, (30.0 - i % 17) * v.GIB) for i in range(40))
        a = Record("b8", 8, "dsv41-flash-8x", {}, memory=curve)
        b = Record(names[-1], 11, "dsv41-flash-8x", {}, memory=tuple((at, value / 2) for at, value in curve[:20]))
        lows = (Row("dgx1", "14.00", "7.00", -7.0),)
        rows = (Row("--gpu-memory-utilization", "0.91", "0.80"), Row("--max-num-seqs", "8", "8"))
        return Comparison(
            a,
            b,
            (
                Section("recipe", rows),
                Section("lowest memory", lows, "GiB", side_by_side=True),
                Section("text", (Row("answer", "Paris", "Paris"),), side_by_side=True),
            ),
        )

    def acknowledge_alarms(self, ident: int | None = None) -> int:
        self.calls.append(("acknowledge", ident))
        held = self._snapshot.alarms
        mine = [a.id for a in held if a.calls and ident in (None, a.id)]
        self.update(alarms=tuple(replace(a, acked_at=self.now()) if a.id in mine else a for a in held))
        return len(mine)

    def mute_alarms(self, seconds: float, *, code: str = "", node: str = "") -> None:
        self.calls.append(("mute", (seconds, code, node)))

    def save_log(self, rank: int | None) -> str:
        self.calls.append(("save", rank))
        return "/tmp/nightdeck/boot-11.log"
