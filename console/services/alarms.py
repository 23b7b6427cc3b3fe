"""The book of alarms: fed by samples, events and time, it tells once, and knows when its own ways out are broken."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from typing import Any, Final

from console.base.absent import Absent
from console.base.clock import Clock
from console.base.errors import UsageError
from console.base.findings import Severity
from console.base.units import duration, gib, rate_text
from console.boot.events import ContainerSeen, DeadlinePassed, Event, SmokeDone, Stalled, StatsSeen
from console.boot.figures import ready_by, ready_seconds, ready_text
from console.boot.state import GONE, BootState, Phase
from console.boot.words import bare
from console.services.boot_ends import BootEnds, subjects
from console.services.hub import NodeView
from console.services.ways_out import Way, send
from console.telemetry.alarm_rules import HARD_RDMA, SOFT_RDMA, AlarmPolicy
from console.telemetry.alarms import Alarm, AlarmList
from console.telemetry.sample import Float, Sample
from console.telemetry.thresholds import Edge, Rule, Thresholds, measures

Spawn = Callable[[str, Coroutine[Any, Any, Any]], Any]
PENDING: Final = 50
# A deadline is near in its last tenth, however long before that the rule would say so.
NEAR_SHARE: Final = 0.1
_BOOT_MEASURES: Final = frozenset({"seconds_to_deadline", "acceptance_length"})
_OF_EVENTS: Final = frozenset({"rank-died", "deadline-passed", "stalled", "serving-bad", "boot-failed"})
_LIVE: Final = frozenset({Phase.STARTING, Phase.BOOTING, Phase.STALLED, Phase.SERVING_BAD})


class AlarmBook:
    """One for a hub. Feeding it is cheap and never waits; sending happens in tasks that `spawn` owns."""

    def __init__(
        self,
        policy: AlarmPolicy,
        ways: Sequence[Way],
        clock: Clock,
        spawn: Spawn,
        touch: Callable[[], None] = lambda: None,
    ) -> None:
        self._policy = policy
        self._clock = clock
        self._spawn = spawn
        self._touch = touch
        self._ways: dict[str, Way] = {w.name: w for w in ways}
        self._queues: dict[str, asyncio.Queue[Alarm]] = {}
        self._list = AlarmList()
        self._started = clock.monotonic()
        rules = policy.levels()
        self._sample_rules = tuple(r for r in rules if r.measure not in {"age_s", *_BOOT_MEASURES})
        self._age_rules = tuple(r for r in rules if r.measure == "age_s")
        self._boot_rules = tuple(r for r in rules if r.measure in _BOOT_MEASURES)
        self._thresholds: dict[tuple[str, str], Thresholds] = {}
        self._kernel: dict[str, int] = {}
        self._ends = BootEnds()

    # -- what faces read and do ---------------------------------------------------------------------------------

    @property
    def all(self) -> tuple[Alarm, ...]:
        """Newest first: those that hold and those that are over."""
        return self._list.all

    @property
    def ways(self) -> Mapping[str, str]:
        """Ways out by name, with what they lead to, safe to show."""
        return {name: way.where for name, way in self._ways.items()}

    def add_way(self, way: Way) -> None:
        """A way that only a face can give, such as the terminal that it draws on."""
        self._ways[way.name] = way

    def acknowledge(self, ident: int | None = None, by: str = "") -> int:
        count = self._list.acknowledge(ident, self._clock.wall(), by)
        self._touch()
        return count

    def mute(self, seconds: float, *, code: str = "", node: str = "") -> None:
        """Tell nobody of this rule on this node for a while; 0 ends it; "" stands for all."""
        now = self._clock.wall()
        self._list.mute(code, node, now + seconds, now)
        self._touch()

    @property
    def mutes(self) -> tuple[tuple[str, str, float], ...]:
        return self._list.mutes

    async def test(self, name: str | None = None) -> Mapping[str, str]:
        """Send a test by one way or by all: way -> "" where it went out, else why not. Raises UsageError."""
        if name is not None and name not in self._ways:
            known = ", ".join(self._ways) or "none"
            raise UsageError(f"no way out named {name}", remedy=f"set up are: {known} ([alarms.ways] in settings.toml)")
        chosen = [w for n, w in self._ways.items() if name in (None, n)]
        now = self._clock.wall()
        alarm = Alarm(0, "test", Severity.INFO, "test", "this is a test of nightdeck's alarms", now)
        said = await asyncio.gather(*(send(w, alarm) for w in chosen))
        for way, why in zip(chosen, said, strict=True):
            self._way_said(way, why)
        return {w.name: why for w, why in zip(chosen, said, strict=True)}

    # -- what feeds it ------------------------------------------------------------------------------------------

    def sampled(self, sample: Sample, seconds_to_empty: Float) -> None:
        if sample.part != "all":
            return
        values = {**measures(sample), "seconds_to_empty": seconds_to_empty}
        self._step("sample", sample.node, self._sample_rules, values, node=sample.node)
        if sample.rebooted:
            self.happen("rebooted", sample.node, f"{sample.node} was rebooted", node=sample.node)
        self._kernel_lines(sample)
        self._rdma(sample)

    def tick(self, views: Iterable[NodeView]) -> None:
        """Once a second: nodes that fell silent, deadlines, what clears by itself."""
        for view in views:
            age = view.age_s if not isinstance(view.age_s, Absent) else self._clock.monotonic() - self._started
            why = bare(view.node.name, view.why) or "no sample yet"
            self._step("age", view.node.name, self._age_rules, {"age_s": age}, node=view.node.name, words=why)
        self._send(self._list.step(self._clock.wall()))

    def boots(self, states: Iterable[BootState]) -> None:
        """Once a second, all that are known: what is measured of each, and which have been dealt with."""
        now = self._clock.wall()
        rows = tuple(states)
        for state in self._ends.look(rows):
            self._send(self._list.clear_all(subjects(state), now))
        for state in rows:
            left = state.deadline_at - now if state.phase in _LIVE else 1e9
            if left > NEAR_SHARE * state.deadline_s:
                left = 1e9  # of a short deadline the rule's seconds are most of it
            length = state.stats.get("acceptance_length")
            drafts: Float = length if length is not None else Absent("the engine drafts nothing")
            if state.phase.over:
                drafts = 1e9
            subject = f"boot {state.number}"
            values = {"seconds_to_deadline": left, "acceptance_length": drafts}
            self._step("boot", subject, self._boot_rules, values)

    def heard(self, state: BootState, event: Event) -> None:
        """An event, with the state after it."""
        subject = f"boot {state.number}"
        quiet = state.phase in (Phase.STOPPING, Phase.STOPPED) or state.deployment in self._ends.over
        if quiet:
            self._send(self._list.clear_all(subjects(state), self._clock.wall()))
            return
        if isinstance(event, ContainerSeen):
            who = f"{subject} rank {event.rank}"
            if event.status in GONE:
                rank = next((r for r in state.ranks if r.rank == event.rank), None)
                node = rank.node if rank is not None else event.node
                code = "" if event.exit_code is None else f" with exit code {event.exit_code}"
                self.happen("rank-died", who, f"{who} on {node or 'an unknown node'} ended{code}", node=node or None)
            else:
                self.over("rank-died", who)
        elif isinstance(event, DeadlinePassed):
            self.happen("deadline-passed", subject, f"{subject} ({state.recipe}) is not ready at its deadline")
        elif isinstance(event, Stalled):
            if event.signs:
                self.happen("stalled", subject, f"{subject} stands still: {', '.join(event.signs)}")
            else:
                self.over("stalled", subject)
        elif isinstance(event, SmokeDone):
            if event.ok:
                self.over("serving-bad", subject)
            else:
                self.happen("serving-bad", subject, f"{subject}: {event.why or 'the answer is not sane'}")
        if isinstance(event, StatsSeen):
            return
        if state.phase is Phase.FAILED:
            self.over("ready", subject)
            if not self._ends.tells(state):
                return
            at = state.cause.node if state.cause is not None and state.cause.node else state.failed_node
            text = f"{subject} ({state.recipe}) failed: {why_failed(state)}"
            self.happen("boot-failed", subject, text, node=at)
        elif state.phase is Phase.READY and not self._list.raised("ready", subject) and state.ready_at == event.at:
            after = ready_text(ready_seconds(state), ready_by(state))
            self.happen("ready", subject, f"{subject} ({state.recipe}) is ready after {after}")
            self.over("deadline-passed", subject)

    def happen(self, code: str, subject: str, text: str, *, node: str | None = None) -> None:
        found = self._policy.happening(code)
        if found is not None:
            at = self._clock.wall()
            self._send(
                self._list.raise_(code, subject, found.severity, text, at, node=node, lasts_s=found.lasts_s),
            )

    def over(self, code: str, subject: str) -> None:
        self._send(self._list.clear(code, subject, self._clock.wall()))

    def restore(self, alarms: Iterable[Alarm], samples: Iterable[Sample]) -> None:
        """Begin where a recording stood: with its alarms, but for those that nothing in a recording would end, and with
        kernel lines that its samples told already."""
        kept: list[Alarm] = []
        for alarm in alarms:
            if not alarm.active:
                kept.append(alarm)
                continue
            kind = "boot" if alarm.subject.startswith("boot ") else "sample"
            rules = self._boot_rules if kind == "boot" else self._sample_rules
            if any(rule.code == alarm.code for rule in rules):
                held = self._thresholds.setdefault((kind, alarm.subject), Thresholds(alarm.subject, rules))
                held.hold(alarm.code)
                kept.append(alarm)
            elif alarm.until is not None or alarm.code in _OF_EVENTS:
                kept.append(alarm)
        self._list.restore(kept)
        for sample in samples:
            if not isinstance(sample.kernel, Absent):
                self._kernel[sample.node] = max((line.number for line in sample.kernel), default=0)

    # -- within -------------------------------------------------------------------------------------------------

    def _step(
        self,
        kind: str,
        subject: str,
        rules: tuple[Rule, ...],
        values: Mapping[str, Float],
        *,
        node: str | None = None,
        words: str = "",
    ) -> None:
        held = self._thresholds.get((kind, subject))
        if held is None:
            held = self._thresholds[(kind, subject)] = Thresholds(subject, rules)
        for edge in held.step(self._clock.monotonic(), values):
            at = self._clock.wall()
            if edge.raised:
                text = f"{subject}: {words or edge_text(edge)}"
                self._send(self._list.raise_(edge.rule.code, subject, edge.rule.severity, text, at, node=node))
            else:
                self._send(self._list.clear(edge.rule.code, subject, at))

    def _kernel_lines(self, sample: Sample) -> None:
        if isinstance(sample.kernel, Absent):
            return
        # A probe begins at the end of the log, so all that it tells is news; another probe counts from one again.
        last = self._kernel.get(sample.node, 0)
        top = max((line.number for line in sample.kernel), default=0)
        if sample.rebooted or top < last:
            last = 0
        for line in sample.kernel:
            if line.number <= last:
                continue
            code = kernel_code(line.text)
            if code:
                self.happen(code, sample.node, f"{sample.node}: {line.text}", node=sample.node)
        self._kernel[sample.node] = top

    def _rdma(self, sample: Sample) -> None:
        ports = () if isinstance(sample.rdma, Absent) else sample.rdma
        for port in ports:
            grown = {} if isinstance(port.errors, Absent) else port.errors
            bad = {k: n for k, n in grown.items() if k in HARD_RDMA or n >= SOFT_RDMA}
            if bad:
                told = ", ".join(f"{k} +{n}" for k, n in sorted(bad.items()))
                self.happen(
                    "rdma-errors", f"{sample.node} {port.name}", f"{sample.node} {port.name}: {told}", node=sample.node
                )

    def _send(self, alarms: Iterable[Alarm], *, but: str = "") -> None:
        told = False
        for alarm in alarms:
            told = True
            if not self._policy.tells(alarm.severity):
                continue
            for name, way in self._ways.items():
                # That something is over is for programs; a person is called only when something begins.
                if name != but and (alarm.active or name not in ("bell", "terminal")):
                    self._queue(way, alarm)
        if told:
            self._touch()

    def _queue(self, way: Way, alarm: Alarm) -> None:
        queue = self._queues.get(way.name)
        if queue is None:
            queue = self._queues[way.name] = asyncio.Queue(PENDING)
            self._spawn(f"alarms by {way.name}", self._pour(way, queue))
        try:
            queue.put_nowait(alarm)
        except asyncio.QueueFull:
            self._way_said(way, f"{PENDING} alarms wait for it already; one was dropped")

    async def _pour(self, way: Way, queue: asyncio.Queue[Alarm]) -> None:
        while True:
            self._way_said(way, await send(way, await queue.get()))

    def _way_said(self, way: Way, why: str) -> None:
        at = self._clock.wall()
        if not why:
            self._send(self._list.clear("way-failed", way.name, at), but=way.name)
            return
        found = self._policy.happening("way-failed")
        if found is not None:
            text = f"alarms do not get out by {way.name} ({way.where}): {why}"
            self._send(self._list.raise_("way-failed", way.name, found.severity, text, at), but=way.name)


def why_failed(state: BootState) -> str:
    """The cause in one sentence where one is known, else how it showed."""
    cause = state.cause
    if cause is None or not cause.sentence:
        return state.failed_why
    return f"{cause.who}: {cause.sentence}" if cause.who else cause.sentence


def edge_text(edge: Edge) -> str:
    """The rule's message and the value that raised it, in the value's own unit."""
    return f"{edge.rule.message} ({measure_text(edge.rule.measure, edge.value)})"


def measure_text(measure: str, value: float) -> str:
    if measure.startswith("seconds_"):
        return duration(value)
    if measure == "available_bytes":
        return gib(value)
    if measure == "swap_bytes_s":
        return rate_text(value)
    if measure == "gpu_latched":
        return "clock < 1 GHz and < 20 W at > 80 %" if value >= 0.5 else "not so"
    unit = {"psi_full60": " %", "gpu_temp_c": " °C", "age_s": " s", "clock_offset_s": " s"}.get(measure, "")
    if measure == "disk_free_share":
        return f"{100 * value:.1f} % free"
    return f"{value:g}{unit}"


def kernel_code(text: str) -> str:
    """The alarm of a kernel line, "" for the others: NVRM writes on healthy boots too."""
    if "Xid" in text:
        return "xid"
    if "NV_ERR_NO_MEMORY" in text:
        return "driver-no-memory"
    oom = "oom-kill" in text or "Out of memory" in text or "Killed process" in text
    return "kernel-oom" if oom else ""
