"""Alarms that follow from another one: what happened first, and under it what it brought about."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from console.base.findings import Severity
from console.telemetry.alarms import Alarm

# What a node's trouble brings about comes within this time [inferred: collectives give up after a minute or two].
FOLLOWS_S: Final = 120.0
# A node counts as lost only after ten seconds of silence: what it brought about may be told before it is.
TOLD_LATER_S: Final = 15.0
GRAVITY: Final = {Severity.BLOCK: 0, Severity.WARN: 1, Severity.INFO: 2}


@dataclass(frozen=True, slots=True)
class Group:
    """An alarm that holds, and those that follow from it, oldest first."""

    cause: Alarm
    follow: tuple[Alarm, ...] = ()

    @property
    def all(self) -> tuple[Alarm, ...]:
        return (self.cause, *self.follow)

    @property
    def gravity(self) -> int:
        """0 the gravest of any of its alarms."""
        return min(GRAVITY.get(a.severity, 1) for a in self.all)

    @property
    def calling(self) -> tuple[Alarm, ...]:
        """Those that nobody took note of, the cause first."""
        return tuple(a for a in self.all if a.calls)


def is_trouble(alarm: Alarm) -> bool:
    """Good news (a boot is ready) is told by the same ways, and is no alarm."""
    return alarm.severity is not Severity.INFO


def grouped(alarms: Sequence[Alarm]) -> list[Group]:
    """What holds, by cause: those first that nobody took note of, then the gravest, then the newest."""
    held = sorted((a for a in alarms if a.active and is_trouble(a)), key=lambda a: (a.raised_at, a.id))
    boots: dict[str, list[Alarm]] = {}
    nodes: list[list[Alarm]] = []
    for alarm in held:
        boot = _boot(alarm)
        if boot:
            boots.setdefault(boot, []).append(alarm)
            continue
        chain = next((c for c in nodes if _follows(c[0], alarm)), None)
        if chain is None:
            nodes.append([alarm])
        else:
            chain.append(alarm)
    groups = [_group(chain[0], chain[1:]) for chain in nodes]
    for members in boots.values():
        head = next((a for a in members if a.code == "boot-failed"), members[0])
        first = head.node or next((a.node for a in members if a.code == "rank-died" and a.node), None)
        at = next((i for i, g in enumerate(groups) if _brought_about(g, head, first)), None)
        if at is None:
            groups.append(_group(head, [a for a in members if a is not head]))
        else:
            ordered = [head, *(a for a in members if a is not head)]
            groups[at] = _group(groups[at].cause, [*groups[at].follow, *ordered])
    return sorted(groups, key=lambda g: (not g.calling, g.gravity, -g.cause.raised_at))


def _group(cause: Alarm, follow: Sequence[Alarm]) -> Group:
    return Group(cause, tuple(follow))


def _boot(alarm: Alarm) -> str:
    """`boot 11` for what is about a boot or a rank of it."""
    words = alarm.subject.split(" ")
    return " ".join(words[:2]) if words[0] == "boot" and len(words) > 1 else ""


def _follows(first: Alarm, alarm: Alarm) -> bool:
    same = first.node is not None and first.node == alarm.node
    return same and alarm.raised_at - first.raised_at <= FOLLOWS_S


def _brought_about(group: Group, boot: Alarm, first_died: str | None) -> bool:
    """Whether a node's trouble is what a boot fell over: on the node whose rank ended first, where one did."""
    node = group.cause.node
    if node is None or _boot(group.cause):
        return False
    since = boot.raised_at - group.cause.raised_at
    blamed = first_died == node or (first_died is None and group.gravity == GRAVITY[Severity.BLOCK])
    return blamed and -TOLD_LATER_S <= since <= FOLLOWS_S
