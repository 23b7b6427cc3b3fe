"""Turns of the loop stay short however many nodes speak or are asked at once."""

from __future__ import annotations

import asyncio
import selectors
import shlex
import socket
from contextlib import ExitStack

from console.transport.quoting import PROGRAM_LENGTH, quote
from console.transport.turns import BEGINNINGS_A_TURN, SOCKETS_A_TURN, FewAtOnce, Turnstile, run_in_turns


def test_many_sockets_are_served_a_few_a_turn_and_none_is_passed_over_twice() -> None:
    with ExitStack() as stack:
        few = stack.enter_context(FewAtOnce())
        ends = [socket.socketpair() for _ in range(3 * SOCKETS_A_TURN)]
        for near, far in ends:
            stack.enter_context(near)
            stack.enter_context(far)
            few.register(near, selectors.EVENT_READ)
            far.send(b"x")
        served: list[int] = []
        for _ in range(3):
            ready = few.select(0)
            assert len(ready) == SOCKETS_A_TURN
            for key, mask in ready:
                assert mask == selectors.EVENT_READ
                served.append(key.fd)  # not read: it is ready again at once, and still comes after the others
        assert sorted(served) == sorted(near.fileno() for near, _ in ends)
        for near, _ in ends:
            near.recv(1)
        assert few.select(0) == []
        ends[0][1].send(b"x")
        assert [key.fd for key, _ in few.select(None)] == [ends[0][0].fileno()]


async def _through(door: Turnstile, order: list[int], number: int) -> None:
    await door.enter()
    order.append(number)


async def test_what_begins_together_begins_a_few_a_turn_in_order() -> None:
    door, order = Turnstile(), list[int]()
    tasks = [asyncio.create_task(_through(door, order, n)) for n in range(10 * BEGINNINGS_A_TURN)]
    before = 0
    turns = 0
    while not all(t.done() for t in tasks):
        await asyncio.sleep(0)
        assert len(order) - before <= BEGINNINGS_A_TURN
        before, turns = len(order), turns + 1
        assert turns < 200
    assert order == list(range(10 * BEGINNINGS_A_TURN))
    await asyncio.wait_for(door.enter(), 5)  # at rest it lets through at once


async def test_one_that_gives_up_takes_nobody_s_place() -> None:
    door, order = Turnstile(1), list[int]()
    tasks = [asyncio.create_task(_through(door, order, n)) for n in range(6)]
    await asyncio.sleep(0)
    for task in tasks[1:4]:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert order == [0, 4, 5]


def test_the_loop_of_turns_is_a_whole_loop() -> None:
    async def work() -> str:
        child = await asyncio.create_subprocess_exec("echo", "hi", stdout=asyncio.subprocess.PIPE)
        said, _ = await child.communicate()
        return await asyncio.to_thread(said.decode)

    assert run_in_turns(work()) == "hi\n"


def test_a_program_is_quoted_once_and_as_any_word() -> None:
    line = "echo 'it is' \\\\ $x\n"
    word = line * PROGRAM_LENGTH
    assert quote(word) is quote(word)
    assert shlex.split(quote(word)) == [word] and shlex.split(quote(line)) == [line]
