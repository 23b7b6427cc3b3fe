"""A reader that pauses holds up nobody: what is printed waits for it, and what finds no room is told."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator

import pytest

from console.cli.beside import Beside
from console.cli.out import Out


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    ends = os.pipe()
    yield ends
    for end in ends:
        try:
            os.close(end)
        except OSError as error:
            assert error.errno == 9, "closed by the test itself"


def read_all(end: int, size: int) -> bytes:
    data = b""
    while len(data) < size and (piece := os.read(end, 1 << 20)):
        data += piece
    return data


def test_who_prints_does_not_wait_for_who_reads(pipe: tuple[int, int]) -> None:
    reads, writes = pipe
    with os.fdopen(os.dup(writes), "w", encoding="utf-8") as stream:
        out = Out(as_json=True, stdout=stream)
        out.data({"n": 0}, line=True)
        out.go_beside()
        out.go_beside()
        events = [{"n": n, "text": "é" * 1000} for n in range(1, 500)]  # far more than a pipe holds
        for event in events:
            out.data(event, line=True)
        size = len(b'{"n": 0}\n') + sum(len(json.dumps(e, ensure_ascii=False).encode()) + 1 for e in events)
        lines = read_all(reads, size).decode().splitlines()
        assert [json.loads(line)["n"] for line in lines] == list(range(500))
        out.finish()


def test_what_finds_no_room_is_told_where_it_is_missing(pipe: tuple[int, int]) -> None:
    reads, writes = pipe
    os.set_blocking(writes, False)
    full = 0
    with contextlib.suppress(BlockingIOError):
        while True:
            full += os.write(writes, b"-" * 512)
    os.set_blocking(writes, True)
    beside = Beside(writes, lambda n: f"({n} lost)\n", most_bytes=200_000)
    for n in range(30):
        beside.write(f"{n:02}" + "x" * 9_997 + "\n")
    kept = read_all(reads, full + 200_000)[full:].decode().splitlines()
    assert [int(line[:2]) for line in kept] == list(range(20))
    beside.drain()
    beside.write("after\n")
    beside.drain()
    assert os.read(reads, 1 << 20) == b"(10 lost)\nafter\n"


def test_a_reader_that_left_is_told_at_the_next_word(pipe: tuple[int, int]) -> None:
    reads, writes = pipe
    beside = Beside(writes, str)
    os.close(reads)
    beside.write("nobody hears it\n")
    with pytest.raises(BrokenPipeError):
        beside.drain()
    with pytest.raises(BrokenPipeError):
        beside.write("nor this\n")
