"""The alarms of a boot that is over: when they end, and that their words keep the cause."""

from __future__ import annotations

from dataclasses import replace

from console.boot.events import BootFailed, BootOpened, CauseFound, ContainerSeen, RankRef
from console.boot.events import Cause as Found
from console.boot.reduce import opened, reduce
from console.boot.state import BootState, Phase
from console.services.alarms import AlarmBook
from console.telemetry.alarm_rules import AlarmPolicy
from tests.services.fakes import ManualClock


def boot(number: int, at: float, nodes: tuple[str, ...] = ("dgx1", "dgx2")) -> BootState:
    ranks = tuple(RankRef(i, node, f"nd-b{number}-r{i}") for i, node in enumerate(nodes))
    return opened(BootOpened(at, f"glm-b{number}", number, "glm", "GLM", "d", "dgx1", ranks, at, 600.0, 8000, "glm"))


class Room:
    """A book, and boots whose events it hears."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.book = AlarmBook(AlarmPolicy(), (), self.clock, lambda _name, work: work.close())
        self.states: dict[int, BootState] = {}

    def open(self, number: int, nodes: tuple[str, ...] = ("dgx1", "dgx2")) -> None:
        self.states[number] = boot(number, self.clock.wall(), nodes)

    def hear(self, number: int, event: object) -> None:
        self.states[number] = reduce(self.states[number], event)  # type: ignore[arg-type]
        self.book.heard(self.states[number], event)  # type: ignore[arg-type]

    def seen(self, number: int, rank: int, status: str, code: int | None = None) -> None:
        self.hear(number, ContainerSeen(self.clock.wall(), rank, status, code))

    def second(self) -> None:
        self.clock.now += 1.0
        self.book.boots(self.states.values())

    def held(self) -> list[str]:
        return sorted(a.code for a in self.book.all if a.active)

    def fall(self, number: int) -> None:
        for rank in (0, 1):
            self.seen(number, rank, "running")
        self.seen(number, 1, "exited", 1)
        cause = Found("oom", "the memory ran out while the weights were loaded", "lower it", rank=1, node="dgx2")
        self.hear(number, CauseFound(self.clock.wall(), cause))
        self.second()


def test_alarms_of_a_failed_boot_end_when_another_console_removed_its_containers_and_keep_their_cause() -> None:
    room = Room()
    room.open(3)
    room.fall(3)
    assert room.states[3].phase is Phase.FAILED and "boot-failed" in room.held()
    told = next(a.text for a in room.book.all if a.code == "boot-failed")
    assert "the memory ran out while the weights were loaded" in told
    room.seen(3, 0, "absent")
    gone = Found("rank_missing", "rank 0 never came", "look at it", rank=0, node="dgx1")
    room.hear(3, CauseFound(room.clock.wall(), gone))
    room.second()
    assert "boot-failed" in room.held()  # half of it still stands
    assert next(a.text for a in room.book.all if a.code == "boot-failed") == told
    room.seen(3, 1, "absent")
    room.second()
    room.hear(3, CauseFound(room.clock.wall(), replace(gone, rank=1)))
    room.second()
    assert room.held() == []
    assert next(a.text for a in room.book.all if a.code == "boot-failed") == told


def test_alarms_of_a_failed_boot_end_when_a_newer_boot_takes_its_nodes_and_not_by_one_elsewhere() -> None:
    room = Room()
    room.open(3)
    room.fall(3)
    room.clock.now += 60
    room.open(4, ("dgx7", "dgx8"))
    room.second()
    assert "boot-failed" in room.held()
    room.open(5)
    room.second()
    room.seen(3, 0, "exited", 0)
    assert room.held() == []


def test_a_boot_whose_containers_went_by_themselves_stays_an_alarm() -> None:
    room = Room()
    room.open(3)
    for rank in (0, 1):
        room.seen(3, rank, "running")
    room.hear(3, BootFailed(room.clock.wall(), "its containers are gone"))
    room.states[3] = replace(room.states[3], ranks=tuple(replace(r, status="absent") for r in room.states[3].ranks))
    room.second()
    assert "boot-failed" in room.held()


def test_nothing_of_a_boot_that_another_console_stopped_is_an_alarm_even_that_it_is_ready() -> None:
    room = Room()
    room.open(3)
    room.book.happen("ready", "boot 3", "boot 3 is ready")
    room.book.happen("guard-tripped", "boot 3 rank 1", "the guard killed it", node="dgx2")
    room.states[3] = replace(room.states[3], phase=Phase.STOPPED)
    room.second()
    assert room.held() == []
