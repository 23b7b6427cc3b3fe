"""What a login shell's rc files print before a command, over a real sshd: none of it is the command's output."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from console.services.lease import Lease
from console.transport.base import TransportError, Trouble
from console.transport.framing import Unframer, framed_line, new_mark, peeled
from console.transport.quoting import command_line
from tests.transport.sshd import Sshd
from tests.transport.tools import linked

NOISE = {
    "a line": "echo 'Welcome to spark2'; echo 'stdin: is not a tty' >&2",
    "no newline": "printf red; printf blue >&2",
    "NULs": "printf 'a\\0b\\0\\377\\033[31m'; printf '\\0\\0' >&2",
    "1 MB": "head -c 1000000 /dev/zero | tr '\\0' x; head -c 1000000 /dev/zero >&2",
    "an echo of the command": 'echo "$SSH_ORIGINAL_COMMAND"; echo "$SSH_ORIGINAL_COMMAND" >&2',
    "a trace": "set -x",
}
DATA = bytes(range(256)) * 3000


@pytest.fixture
def noisy(make_sshd: Callable[..., Sshd], tmp_path: Path) -> Callable[[str], Sshd]:
    """An account whose every command comes after some shell text, as after an rc file."""

    def make(before: str) -> Sshd:
        script = tmp_path / "rc"
        script.write_text(f'{before}\neval "$SSH_ORIGINAL_COMMAND"\n')
        return make_sshd(f"ForceCommand exec sh {shlex.quote(str(script))}")

    return make


@pytest.mark.parametrize("before", NOISE.values(), ids=NOISE.keys())
async def test_noise_before_a_command_is_not_its_output(noisy: Callable[[str], Sshd], before: str) -> None:
    async with linked(noisy(before).config()) as link:
        done = await link.run(["sh", "-c", "cat; echo err >&2; exit 3"], timeout=20, stdin=DATA)
        assert (done.status, done.stdout == DATA) == (3, True), done.stdout[:80]
        assert done.stderr.endswith(b"err\n") and (before == "set -x" or done.stderr == b"err\n")
        async with link.stream(["printf", r"\001\000x"]) as stream:
            assert b"".join([block async for block in stream.blocks()]) == b"\1\0x"
            assert stream.result() is not None
        async with link.stream(["cat"], interactive=True) as stream:
            await stream.send(DATA)
            await stream.end_input()
            assert b"".join([block async for block in stream.blocks()]) == DATA


async def test_the_controls_are_had_over_a_shell_that_greets_without_a_newline(
    noisy: Callable[[str], Sshd], tmp_path: Path
) -> None:
    class One:
        names = ("n1",)

        def link(self, _node: str) -> object:
            return link

        async def close(self) -> None:
            return

    config = noisy(f"printf red; export TMPDIR={tmp_path}").config()
    async with linked(config) as link, Lease(One(), ["n1"], "ann@desk") as lease:  # type: ignore[arg-type]
        assert (lease.held, lease.missing) == (("n1",), {})


@pytest.mark.parametrize(
    ("end", "said"),
    [
        ("exit 1", "exit status 1 before the command began; it said nothing, as /bin/false does"),
        (
            "echo 'This account is currently not available.'; exit 1",
            "it said: This account is currently not available.",
        ),
        ("exit 0", "exit status 0 before the command began"),
    ],
)
async def test_a_login_shell_that_refuses_commands_is_no_result(
    noisy: Callable[[str], Sshd], end: str, said: str
) -> None:
    async with linked(noisy(end).config()) as link:
        with pytest.raises(TransportError) as caught:
            await link.run(["true"], timeout=10)
        assert caught.value.trouble is Trouble.SHELL
        assert "login shell refuses commands" in caught.value.what and said in caught.value.what
        async with link.stream(["true"]) as stream:
            with pytest.raises(TransportError) as caught:
                assert not [block async for block in stream.blocks()]
        assert caught.value.trouble is Trouble.SHELL


@given(st.binary(max_size=60), st.binary(max_size=60), st.integers(1, 9))
def test_the_mark_is_found_however_the_bytes_are_cut(noise: bytes, own: bytes, size: int) -> None:
    mark = b"0123456789abcdef"
    if mark in noise:
        return
    whole, frame = noise + mark + own, Unframer(mark)
    assert b"".join(frame.take(whole[i : i + size]) for i in range(0, len(whole), size)) == own
    assert frame.begun


def test_a_mark_is_new_each_time_and_comes_off_again() -> None:
    argv = ["python3", "-c", "print('a b')", ""]
    marks = {new_mark() for _ in range(50)}
    assert len(marks) == 50
    for mark in marks:
        line = framed_line(argv, mark)
        assert mark not in line
        assert peeled(line) == (mark.encode(), command_line(argv))
    assert peeled(command_line(argv)) == (b"", command_line(argv))
