"""All ranks side by side."""

from __future__ import annotations

import dataclasses

import pytest

from console.base.absent import Absent
from console.enginelog.board import BoardTracker, RankLog
from console.enginelog.stages_model import CellState, Stage
from tests.enginelog.logs import data, decode

HEAD = "real-cpu-tp8-rank0.log"
ONE, FOUR = "real-cpu-tp8-rank1.log", "real-cpu-tp8-rank4.log"


def until(name: str, words: bytes) -> bytes:
    """The log up to and with the line that holds the words."""
    raw = data(name)
    return raw[: raw.index(b"\n", raw.index(words)) + 1]


def test_who_has_joined() -> None:
    board = BoardTracker(8)
    assert str(board.rendezvous()) == "0/8"
    assert isinstance(board.laggard(Stage.RENDEZVOUS), Absent)
    board.feed(0, until(HEAD, b"distributed_init_method"))
    board.feed(1, until(ONE, b"distributed_init_method"))
    meeting = board.rendezvous()
    assert (meeting.waiting, meeting.joined, meeting.complete) == ({0, 1}, frozenset(), False)
    assert meeting.unheard == {2, 3, 4, 5, 6, 7}
    assert board.laggard(Stage.RENDEZVOUS) == 2
    board.feed(1, data(ONE)[len(until(ONE, b"distributed_init_method")) : len(until(ONE, b"is assigned"))])
    meeting = board.rendezvous()
    assert (meeting.joined, meeting.complete, meeting.inferred, str(meeting)) == ({1}, True, True, "8/8")
    cell = board.cells(4)[Stage.RENDEZVOUS]
    assert (cell.state, cell.inferred) == (CellState.DONE, True)
    assert board.cells(4)[Stage.MODEL].state is CellState.PENDING


def test_the_head_proves_what_workers_never_say() -> None:
    board = BoardTracker(8)
    board.feed(4, data(FOUR))
    assert board.cells(4)[Stage.KV_CACHE].state is CellState.ACTIVE
    board.feed(0, until(HEAD, b"KV cache size"))
    assert board.cells(1)[Stage.LOADED].state is CellState.DONE
    assert board.cells(1)[Stage.KV_CACHE].state is CellState.PENDING
    board.feed(0, data(HEAD)[len(until(HEAD, b"KV cache size")) :])
    board.finish(0)
    assert board.ready
    cells = board.cells(4)
    assert (cells[Stage.KV_CACHE].state, cells[Stage.KV_CACHE].inferred) == (CellState.DONE, True)
    assert cells[Stage.GRAPHS].state is CellState.SKIPPED
    assert cells[Stage.HTTP].state is CellState.SKIPPED
    assert board.current(4) is Stage.KV_CACHE
    assert board.numbers().kv_tokens == 262144


def test_the_slowest_rank() -> None:
    board = BoardTracker(8)
    for rank, name in ((0, HEAD), (1, ONE), (4, FOUR)):
        board.feed(rank, data(name))
    assert board.laggard(Stage.RENDEZVOUS) == 4
    board = BoardTracker(2)
    board.feed(0, until("composed-success.log", b"Model loading took"))
    board.feed(1, until("composed-fail-wedge-rank1-docker-t.log", b"Filesystem type"))
    assert board.laggard(Stage.WEIGHTS) == 1
    assert board.current(0) is Stage.LOADED


def test_numbers_are_merged_and_the_smallest_cache_decides() -> None:
    board = BoardTracker(8)
    board.feed(0, data("composed-success.log"))
    board.feed(3, data("composed-success-rank3-docker-t.log"))
    numbers = board.numbers()
    assert (numbers.kv_gib, numbers.kv_tokens, numbers.transport, numbers.joined) == (9.53, 1011712, "RoCE", (0, 3))
    assert numbers.log_rank == 0
    assert board.durations()[Stage.WEIGHTS] == pytest.approx(895.0, abs=20)


def test_one_rank_on_tcp_is_enough_to_say_so() -> None:
    board = BoardTracker(2)
    board.feed(0, b"h:1:1 [0] NCCL INFO Using network IB\n")
    board.feed(1, b"h:1:1 [0] NCCL INFO Using network Socket\n")
    assert board.numbers().transport == "Socket"


def test_a_rank_outside_the_world_is_the_callers_fault() -> None:
    with pytest.raises(KeyError):
        BoardTracker(2).feed(2, b"x\n")


def test_a_moving_bar_is_seen_before_its_line_ends() -> None:
    log = RankLog(0)
    log.feed(data("composed-success.log")[: data("composed-success.log").index(b"\rLoading safetensors")])
    log.feed(b"\rLoading safetensors checkpoint shards:  12% Completed | 6/48 [01:41<11:49, 16.89s/it]")
    assert not isinstance(log.progress, Absent)
    assert log.progress.done == 6


def test_eight_ranks_in_any_chunks_are_the_same() -> None:
    raw = data(HEAD)
    whole, pieces = RankLog(0), RankLog(0)
    whole.feed(raw)
    for start in range(0, len(raw), 7):
        pieces.feed(raw[start : start + 7])
    assert whole.tracker.cells() == pieces.tracker.cells()
    assert whole.numbers == pieces.numbers
    assert whole.lines == pieces.lines == raw.count(b"\n")
    assert len(decode(raw)) == whole.tracker.records
    assert dataclasses.asdict(whole.numbers)["version"] == "0.32.0"
