"""A log followed across cuts: nothing lost, nothing doubled, order kept."""

from __future__ import annotations

import asyncio
import random
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from console.services import tail as tail_module
from console.services.tail import SLICE_BYTES, SLICE_LINES, Resume, Splitter, Tail, slices
from console.transport.base import Completed, TransportError, Trouble
from tests.services.fakes import FakeLink, FakeStream, ManualClock

START = datetime(2026, 11, 30, 3, 0, 0, tzinfo=UTC)


def stamped(offset_us: int, text: str) -> bytes:
    at = START + timedelta(microseconds=offset_us)
    return f"{at.strftime('%Y-%m-%dT%H:%M:%S.%f')}000Z {text}".encode()


def since_of(argv: list[str]) -> str:
    """The `--since` word of a follow command, "" when it asks for everything."""
    return argv[5] if len(argv) == 7 else ""


class Engine:
    """A container's log as an engine replays it: file order, `--since` compared stamp by stamp, cut anywhere."""

    def __init__(self, lines: list[bytes], cuts: list[int]) -> None:
        self.lines = lines
        self.cuts = cuts

    def replay(self, since: str) -> bytes:
        if not since:
            return b"".join(line + b"\n" for line in self.lines)
        floor = since.encode().rstrip(b"Z")
        return b"".join(line + b"\n" for line in self.lines if line.split(b" ", 1)[0].rstrip(b"Z") >= floor)


async def follow(engine: Engine, monkeypatch: pytest.MonkeyPatch | None, sizes: random.Random) -> list[bytes]:
    got: list[bytes] = []

    class CuttingLink(FakeLink):
        def stream(self, argv, **kwargs):  # type: ignore[no-untyped-def]
            data = engine.replay(since_of(list(argv)))
            if engine.cuts:
                data = data[: engine.cuts.pop(0)]
                end: Completed | TransportError = TransportError(Trouble.LOST, "cut", node="dgx1")
            else:
                end = Completed(0, b"", b"")
            pieces = []
            while data:
                n = sizes.randint(1, 200)
                pieces.append(data[:n])
                data = data[n:]
            self.streams = [FakeStream(pieces, end)]
            return super().stream(argv, **kwargs)

    tail = Tail(CuttingLink("dgx1"), "docker", "c", got.extend, ManualClock())
    await tail.run()
    assert tail.state == "ended"
    return got


# Stamps jitter backwards by less than the overlap, as stdout and stderr are stamped apart; some are equal.
offsets = st.lists(st.tuples(st.integers(0, 400_000), st.integers(0, 900_000)), min_size=1, max_size=60)


@given(rows=offsets, cuts=st.lists(st.integers(0, 6000), max_size=50), seed=st.integers(0, 2**16))
@settings(max_examples=150, deadline=None)
def test_no_line_is_lost_or_doubled_through_cuts(rows: list[tuple[int, int]], cuts: list[int], seed: int) -> None:
    now = 0
    lines = []
    for i, (step, back) in enumerate(rows):
        now += step
        lines.append(stamped(max(0, now - back), f"line {i % 7}"))
    retry = tail_module._RETRY_S
    tail_module._RETRY_S = (0.0,)
    try:
        got = asyncio.run(follow(Engine(lines, list(cuts)), None, random.Random(seed)))
    finally:
        tail_module._RETRY_S = retry
    assert got == lines


def test_lines_with_one_stamp_are_told_apart_by_their_order() -> None:
    lines = [stamped(5, "a"), stamped(5, "b"), stamped(5, "a"), stamped(6, "c")]
    resume = Resume()
    for line in lines[:2]:
        assert resume.fresh(line)
    assert resume.since() == "2026-11-30T02:59:55Z"
    assert [resume.fresh(line) for line in lines] == [False, False, True, True]


def test_a_masked_copy_on_disk_still_stands_for_its_line() -> None:
    resume = Resume()
    resume.seed([stamped(5, "token ***")])
    resume.since()
    assert not resume.fresh(stamped(5, "token hf_abcdefgh"))
    assert resume.fresh(stamped(7, "next"))


async def test_a_container_that_is_gone_ends_the_tail() -> None:
    said = b"Error response from daemon: No such container: nd-x\n"
    link = FakeLink("dgx1", streams=[FakeStream([said], Completed(1, b"", b""))])
    tail = Tail(link, "docker", "nd-x", lambda lines: None, ManualClock())
    await tail.run()
    assert tail.state == "gone"
    assert "No such container" in tail.why


async def test_a_log_that_the_engine_does_not_keep_is_not_asked_for_again() -> None:
    said = b"Error response from daemon: configured logging driver does not support reading\n"
    link = FakeLink("dgx1", streams=[FakeStream([said], Completed(1, b"", said))])
    tail = Tail(link, "docker", "c", lambda lines: None, ManualClock())
    await tail.run()
    assert tail.state == "unkept" and "does not support reading" in tail.why and len(link.asked) == 1


async def test_without_following_a_lost_connection_ends_the_read_and_says_so() -> None:
    link = FakeLink("dgx1", streams=[FakeStream([b"2026"], TransportError(Trouble.LOST, "it broke", node="dgx1"))])
    tail = Tail(link, "docker", "c", lambda lines: None, ManualClock(), follow=False)
    await tail.run()
    assert (tail.state, tail.why, tail.done.is_set()) == ("lost", "it broke", True)
    assert "--follow" not in link.asked[0][2]


@given(st.lists(st.sampled_from([0, 1, 200, 9000, 16_384, 100_000]).map(bytes), max_size=80))
@settings(max_examples=60, deadline=None)
def test_portions_are_small_and_lose_nothing(lines: list[bytes]) -> None:
    parts = [list(part) for part in slices(lines)]
    assert [line for part in parts for line in part] == lines
    for part in parts:
        assert 0 < len(part) <= SLICE_LINES
        assert len(part) == 1 or sum(map(len, part)) <= SLICE_BYTES


async def test_long_lines_come_in_small_portions() -> None:
    lines = [stamped(n, "x" * 16_000) for n in range(64)]
    link = FakeLink("dgx1", streams=[FakeStream([b"\n".join(lines) + b"\n"], Completed(0, b"", b""))])
    got: list[list[bytes]] = []
    await Tail(link, "docker", "c", got.append, ManualClock()).run()
    assert [line for part in got for line in part] == lines
    assert max(sum(map(len, part)) for part in got) <= SLICE_BYTES


def test_an_endless_line_stays_bounded() -> None:
    splitter = Splitter(limit=1000)
    for _ in range(100):
        assert splitter.feed(b"x" * 1000) == []
    (line,) = splitter.feed(b"\n")
    assert len(line) <= 2000


def test_a_clock_that_is_set_back_costs_no_line() -> None:
    hour = 3_600_000_000
    before = [stamped(hour + i * 10_000, f"before {i}") for i in range(1000)]
    after = [stamped(hour - 60_000_000 + i * 10_000, f"after {i}") for i in range(1000)]
    lines = before + after
    got = asyncio.run(follow(Engine(lines, [80_000, 90_000, 20_000]), None, random.Random(1)))
    assert got == lines


def test_a_flood_that_outruns_what_is_remembered_comes_once() -> None:
    lines = [stamped(i, f"line {i}") for i in range(5000)]
    resume = Resume(window=400)
    got = []
    for cut in (1500, 2600, 3999, 5000):
        since = resume.since().encode().rstrip(b"Z")
        replayed = [line for line in lines if not since or line.split(b" ")[0].rstrip(b"Z") >= since]
        got += [line for line in replayed if line in lines[:cut] and resume.fresh(line)]
    assert got == lines


@pytest.mark.parametrize("zone", ["+02:00", "-05:30", "Z"])
def test_the_zone_of_a_node_is_asked_in(zone: str) -> None:
    resume = Resume()
    resume.fresh(f"2026-11-30T03:00:07.25{zone} hello".encode())
    assert resume.since() == f"2026-11-30T03:00:02{zone}"


async def test_half_a_line_of_a_reader_that_was_killed_is_not_taken_for_the_line() -> None:
    whole = b"2026-11-30T03:00:00.000000001Z one\n2026-11-30T03:00:00.000000002Z two and more\n"
    killed = FakeStream([whole[:-6]], Completed(None, b"", b"", signal="KILL"))
    link = FakeLink("dgx1", streams=[killed, FakeStream([whole], Completed(0, b"", b""))])
    got: list[bytes] = []
    await Tail(link, "docker", "c", got.extend, ManualClock()).run()
    assert got == whole.split(b"\n")[:-1]


async def test_a_log_whose_container_was_started_again_goes_on_where_it_ended() -> None:
    first = [stamped(1, "one"), stamped(2, "two")]
    more = [*first, stamped(9_000_000, "after the restart")]
    streams = [FakeStream([b"\n".join(rows) + b"\n"], Completed(0, b"", b"")) for rows in (first, more)]
    got: list[bytes] = []
    clock = ManualClock()
    link, resume = FakeLink("dgx1", streams=streams), Resume()
    tail = Tail(link, "docker", "c", got.extend, clock, resume=resume)
    assert not tail.ended_before(clock.now + 0.1)
    await tail.run()
    assert not tail.ended_before(clock.now) and tail.ended_before(clock.now + 0.1)
    tail = Tail(link, "docker", "c", got.extend, clock, resume=resume)
    await tail.run()
    assert got == more and tail.done.is_set()


def test_podman_stamps_with_a_zone_and_fewer_digits() -> None:
    resume = Resume()
    assert resume.fresh(b"2026-11-30T03:00:01.5+00:00 hello")
    assert resume.since() == "2026-11-30T02:59:56+00:00"
    assert not resume.fresh(b"2026-11-30T03:00:01.5+00:00 hello")
