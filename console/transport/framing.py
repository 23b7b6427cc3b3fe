"""Where a command's own output begins: a mark before it, so that what a login shell's rc files print is never read."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from typing import Final

from console.base.text import clean_bytes
from console.transport.quoting import command_line, quote

# $1 and $2: the halves of the mark; the rest is the command. In halves, so that a shell that repeats its commands
# (`set -x` in an rc file) does not print the mark before it is due.
FRAME: Final = 'printf %s%s "$1" "$2"; printf %s%s "$1" "$2" >&2; shift 2; exec "$@"'
_HALF_BYTES: Final = 8
_PREFIX: Final = f"exec sh -c {quote(FRAME)} nightdeck "
# What is kept of the noise, for the words about a shell that never came to the command.
_NOISE_BYTES: Final = 400


def new_mark() -> str:
    """A mark for one command: nothing on the node can know it before, so nothing can print it by chance."""
    return secrets.token_hex(2 * _HALF_BYTES)


def framed_line(argv: Sequence[str], mark: str) -> str:
    """The command line that prints `mark` on both outputs and then becomes `argv`. Raises as `command_line`."""
    command_line(argv)
    half = len(mark) // 2
    return command_line(["sh", "-c", FRAME, "nightdeck", mark[:half], mark[half:], *argv])


def peeled(line: str) -> tuple[bytes, str]:
    """The mark of a framed line and the line without its frame; no mark where it is not framed."""
    if not line.startswith(_PREFIX):
        return b"", line
    first, second, rest = line[len(_PREFIX) :].split(" ", 2)
    return f"{first}{second}".encode("ascii", "replace"), f"exec {rest}"


class Unframer:
    """One output of one command: nothing until the mark, then everything. An empty mark: everything.

    Noise is dropped as it comes, however much of it there is."""

    def __init__(self, mark: bytes) -> None:
        self._mark = mark
        self._rest = b""
        self._noise = b""
        self.begun = not mark

    def take(self, data: bytes) -> bytes:
        """What of these bytes is the command's own."""
        if self.begun:
            return data
        seen = self._rest + data
        before, mark, own = seen.partition(self._mark)
        self._noise = (self._noise + before[: max(0, _NOISE_BYTES - len(self._noise))])[:_NOISE_BYTES]
        if mark:
            self.begun, self._rest = True, b""
            return own
        self._rest = seen[-(len(self._mark) - 1) :]
        return b""

    @property
    def noise(self) -> str:
        """The beginning of what came before the mark, as one clean line."""
        return clean_bytes(self._noise, limit=_NOISE_BYTES)
