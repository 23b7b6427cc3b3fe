"""The wrapper under every shell at hand: results kept, input whole or not at all, and no survivor when input ends."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from console.transport.wrapper import wrapped
from tests.transport.tools import ended

SHELLS = [s for s in (["dash"], ["bash"], ["busybox", "sh"]) if shutil.which(s[0])]
every_shell = pytest.mark.parametrize("shell", SHELLS, ids=lambda s: s[0])


@asynccontextmanager
async def started(
    shell: list[str], argv: list[str], data: bytes = b"", announced: int | None = None, path: str | None = None
) -> AsyncIterator[asyncio.subprocess.Process]:
    words = wrapped(argv, len(data) if announced is None else announced)
    env = {**os.environ, "PATH": path} if path else None
    process = await asyncio.create_subprocess_exec(
        *shell,
        *words[1:],
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        start_new_session=True,
        env=env,
    )
    assert process.stdin is not None
    process.stdin.write(data)
    try:
        yield process
    finally:
        process.stdin.close()
        await process.wait()


async def result(
    shell: list[str], argv: list[str], data: bytes = b"", announced: int | None = None
) -> tuple[int, bytes, bytes]:
    async with started(shell, argv, data, announced) as process:
        assert process.stdout and process.stderr and process.stdin
        if announced is not None:
            process.stdin.close()
        out, err = await asyncio.gather(process.stdout.read(), process.stderr.read())
        return await process.wait(), out, err


@every_shell
async def test_status_and_both_outputs_are_kept(shell: list[str]) -> None:
    assert await result(shell, ["sh", "-c", "echo out; echo err >&2; exit 7"]) == (7, b"out\n", b"err\n")
    assert (await result(shell, ["sh", "-c", "kill -9 $$"]))[0] == 128 + 9
    status, out, err = await result(shell, ["no-such-command-here"])
    assert (status, out) == (127, b"")
    assert b"no-such-command-here" in err


@every_shell
async def test_without_input_the_command_reads_an_end(shell: list[str]) -> None:
    assert await result(shell, ["cat"]) == (0, b"", b"")


@every_shell
async def test_input_arrives_whole_with_any_bytes(shell: list[str]) -> None:
    data = bytes(range(256)) * 1200  # more than a pipe holds
    assert await result(shell, ["cat"], data) == (0, data, b"")


@every_shell
async def test_a_command_does_not_start_on_half_of_its_input(shell: list[str]) -> None:
    status, out, err = await result(shell, ["echo", "started"], b"abc", announced=10)
    assert (status, out) == (125, b"")
    assert b"3 of 10 bytes" in err


@every_shell
async def test_no_temporary_file_stays(shell: list[str]) -> None:
    _, out, _ = await result(shell, ["readlink", "/proc/self/fd/0"], b"secret")
    assert out.startswith((b"/dev/shm/nightdeck.", b"/tmp/nightdeck."))
    assert out.endswith(b" (deleted)\n")


@every_shell
async def test_end_of_input_ends_the_whole_group(shell: list[str]) -> None:
    argv = ["sh", "-c", "sleep 1000 & echo $! $$; wait"]
    async with started(shell, argv) as process:
        assert process.stdout and process.stdin
        pids = [int(p) for p in (await process.stdout.readline()).split()]
        process.stdin.close()
        for pid in pids:
            await ended(pid)
        assert await process.wait() == 143


@every_shell
async def test_a_command_that_ignores_term_is_killed(shell: list[str]) -> None:
    argv = ["sh", "-c", "trap '' TERM HUP INT; echo $$; while :; do sleep 1000; done"]
    async with started(shell, argv) as process:
        assert process.stdout and process.stdin
        pid = int(await process.stdout.readline())
        process.stdin.close()
        await ended(pid)


@every_shell
async def test_a_command_that_does_not_read_its_input_ends_too(shell: list[str]) -> None:
    async with started(shell, ["sh", "-c", "echo $$; exec sleep 1000"], b"x" * 300_000) as process:
        assert process.stdout and process.stdin
        pid = int(await process.stdout.readline())
        process.stdin.close()
        await ended(pid)


@every_shell
async def test_without_setsid_the_command_itself_ends(shell: list[str], tmp_path: Path) -> None:
    for name in ("sh", "sleep", "head", "wc", "mktemp", "rm", shell[0]):
        (tmp_path / name).symlink_to(shutil.which(name) or "")
    if shell[0] == "busybox":
        pytest.skip("busybox finds its own setsid whatever PATH says")
    async with started(shell, ["sh", "-c", "echo $$; exec sleep 1000"], path=str(tmp_path)) as process:
        assert process.stdout and process.stdin
        pid = int(await process.stdout.readline())
        process.stdin.close()
        await ended(pid)


@every_shell
async def test_what_a_command_leaves_running_stays(shell: list[str], tmp_path: Path) -> None:
    """`docker run -d` and its like: only the end of input ends a group, a normal end does not."""
    status, out, _ = await result(shell, ["sh", "-c", "sleep 1000 >/dev/null 2>&1 & echo $!"])
    pid = int(out)
    assert status == 0
    os.kill(pid, 0)
    os.kill(pid, 9)


@every_shell
async def test_killing_the_wrapper_does_not_free_the_command(shell: list[str]) -> None:
    async with started(shell, ["sh", "-c", "echo $$; exec sleep 1000"]) as process:
        assert process.stdout and process.stdin
        pid = int(await process.stdout.readline())
        process.kill()
        await asyncio.sleep(0)
        process.stdin.close()
        await ended(pid)
