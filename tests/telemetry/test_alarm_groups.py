"""What belongs together among the alarms, and what came first."""

from __future__ import annotations

from dataclasses import replace

from console.base.findings import Severity
from console.telemetry.alarm_groups import grouped
from console.telemetry.alarms import Alarm

T = 1_790_000_000.0


def alarm(ident: int, code: str, subject: str, at: float, node: str | None = None, *, warn: bool = False) -> Alarm:
    severity = Severity.WARN if warn else Severity.BLOCK
    return Alarm(ident, code, severity, subject, f"{subject} {code}", T + at, node)


def shape(*alarms: Alarm) -> list[tuple[int, tuple[int, ...]]]:
    return [(g.cause.id, tuple(a.id for a in g.follow)) for g in grouped(alarms)]


def collapse() -> list[Alarm]:
    """Memory of dgx4 falls, the kernel kills its rank, the boot fails, the other ranks go."""
    died = [alarm(10 + r, "rank-died", f"boot 3 rank {r}", 21 + r / 100, f"dgx{r + 1}") for r in (0, 1, 2, 4)]
    return [
        alarm(1, "memory-low", "dgx4", 0, "dgx4", warn=True),
        alarm(2, "kernel-oom", "dgx4", 19, "dgx4"),
        alarm(3, "rank-died", "boot 3 rank 3", 20, "dgx4"),
        alarm(4, "boot-failed", "boot 3", 20),
        *died,
    ]


def test_a_failed_boot_and_its_dead_ranks_follow_from_the_node_where_it_began() -> None:
    assert shape(*collapse()) == [(1, (2, 4, 3, 10, 11, 12, 14))]


def test_a_mere_warning_of_the_blamed_node_is_what_it_began_with_and_the_boots_own_word_decides_which() -> None:
    low = alarm(1, "memory-low", "dgx4", 0, "dgx4", warn=True)
    other = alarm(2, "rank-died", "boot 3 rank 0", 3, "dgx1")
    failed = alarm(3, "boot-failed", "boot 3", 3)
    assert sorted(shape(low, other, failed)) == [(1, ()), (3, (2,))]
    assert shape(low, other, replace(failed, node="dgx4")) == [(1, (3, 2))]


def test_trouble_of_another_node_is_not_taken_for_the_cause() -> None:
    elsewhere = alarm(99, "node-lost", "dgx8", 5, "dgx8")
    assert shape(*collapse(), elsewhere) == [(99, ()), (1, (2, 4, 3, 10, 11, 12, 14))]


def test_a_boot_that_stands_still_follows_from_the_node_that_fell_silent_even_where_that_is_told_later() -> None:
    lost, stalled = alarm(2, "node-lost", "dgx7", 10, "dgx7"), alarm(1, "stalled", "boot 3", 4, warn=True)
    assert shape(stalled, lost) == [(2, (1,))]
    assert shape(replace(stalled, raised_at=T + 400), lost) == [(2, ()), (1, ())]
    hot = alarm(5, "gpu-hot", "dgx7", 3, "dgx7", warn=True)
    assert sorted(shape(hot, stalled)) == [(1, ()), (5, ())]


def test_a_boot_without_a_node_to_blame_is_told_as_one() -> None:
    died = [alarm(i, "rank-died", f"boot 3 rank {i}", i / 10, f"dgx{i}") for i in (1, 2, 3)]
    assert shape(*died, alarm(9, "boot-failed", "boot 3", 0.1)) == [(9, (1, 2, 3))]
    assert sorted(shape(*died, alarm(9, "boot-failed", "boot 4", 0.1))) == [(1, (2, 3)), (9, ())]


def test_good_news_and_what_is_over_are_no_alarms() -> None:
    ready = replace(alarm(1, "ready", "boot 3", 0), severity=Severity.INFO)
    over = replace(alarm(2, "xid", "dgx1", 0, "dgx1"), cleared_at=T + 5)
    assert grouped((ready, over)) == []


def test_noted_groups_stand_last_and_a_late_consequence_calls_again() -> None:
    noted = [replace(a, acked_at=T + 30) for a in collapse()]
    news = alarm(50, "disk-full", "dgx1", 100, "dgx1", warn=True)
    assert [g.cause.id for g in grouped((*noted, news))] == [50, 1]
    late = alarm(60, "rank-died", "boot 3 rank 7", 60, "dgx8")
    group = grouped((*noted, late))[0]
    assert group.cause.id == 1 and [a.id for a in group.calling] == [60]
