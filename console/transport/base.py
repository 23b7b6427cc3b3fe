"""What services may ask of a node, however it is reached; and how it can fail."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from console.base.errors import NightdeckError


class Trouble(StrEnum):
    """Why a node did not answer. Each asks something else of the operator."""

    UNREACHABLE = "unreachable"  # no route, timeout before TCP accept
    REFUSED = "refused"  # TCP refused: host up, sshd down
    SILENT = "silent"  # TCP accepted, no SSH banner in time: a wedged node; do not hammer it
    UNKNOWN_HOST = "unknown_host"  # the name does not resolve
    HOST_KEY = "host_key"  # unknown or changed host key
    AUTH = "auth"  # permission denied; which keys and agents were tried
    LOST = "lost"  # the connection broke in the middle
    DEADLINE = "deadline"  # the command outlived its limit
    CHANNEL = "channel"  # sshd refused a channel
    TOO_MUCH = "too_much"  # the command printed more than the limit
    SHELL = "shell"  # logged in, and the login shell ended before the command began
    CONFIG = "config"  # ssh configuration or key file cannot be used


class TransportError(NightdeckError):
    """A node did not do what it was asked, for a reason of the way to it: nothing is known of the outcome.

    trouble: which kind. node: its name. `what` and `remedy` are for the operator (a host key error's remedy
    is the command that fixes it)."""

    def __init__(self, trouble: Trouble, what: str, *, node: str, remedy: str = "") -> None:
        super().__init__(what, where=node, remedy=remedy)
        self.trouble = trouble
        self.node = node


@dataclass(frozen=True, slots=True)
class Completed:
    """A command that ended on the node. status: exit status; None when a signal ended it (`signal` names it)."""

    status: int | None
    stdout: bytes
    stderr: bytes
    signal: str | None = None

    @property
    def ok(self) -> bool:
        return self.status == 0


class Stream(Protocol):
    """A command that runs on: its output as it comes. Leaving the context ends it on the node too, also when
    the connection is cut (the remote side sees its standard input end)."""

    def blocks(self) -> AsyncIterator[bytes]:
        """Standard output in blocks of at most 64 KiB, until the command ends. Raises TransportError(LOST)."""
        ...

    async def send(self, data: bytes) -> None:
        """Bytes to the command's standard input. Only for streams opened with `interactive=True`."""
        ...

    async def end_input(self) -> None:
        """End the command's standard input, so that one that reads to the end (`docker load`) can finish. Only for
        streams opened with `interactive=True`."""
        ...

    def result(self) -> Completed | None:
        """Exit status and the tail of stderr, once `blocks` is exhausted; stdout is empty here."""
        ...


class ByteChannel(Protocol):
    """A TCP or unix-socket connection made from the node."""

    async def read(self, n: int) -> bytes: ...

    async def write(self, data: bytes) -> None: ...

    async def close(self) -> None: ...


class Link(Protocol):
    """One node, one connection kept open and opened again when needed; never blocks another node's link.

    Output is the command's own: what a login shell's rc files print before it is dropped, on both outputs.

    Every call has a deadline, opening the connection included. A non-zero exit is a result, not an error.
    argv is quoted once, inside the transport; nothing in it is ever read as shell code."""

    @property
    def node(self) -> str: ...

    @property
    def connected(self) -> bool: ...

    async def run(self, argv: Sequence[str], *, timeout: float, stdin: bytes = b"", limit: int = 4 << 20) -> Completed:
        """Run to the end. On deadline or cancellation the command is ended on the node.

        Raises TransportError: DEADLINE, LOST, TOO_MUCH (more than `limit` bytes on stdout), and all that connecting
        can meet."""
        ...

    def stream(
        self, argv: Sequence[str], *, stdin: bytes = b"", interactive: bool = False, open_timeout: float = 15.0
    ) -> AbstractAsyncContextManager[Stream]:
        """Start a command that runs on. `stdin` is sent first. With `interactive`, stdin stays open for `send`, and
        the command itself must end at the end of its stdin; otherwise the transport wraps it so that it does."""
        ...

    async def open_tcp(self, host: str, port: int, *, timeout: float) -> ByteChannel:
        """A TCP connection made from the node. Raises TransportError; CHANNEL with the node's own words when the
        node cannot connect there (REFUSED when it says refused)."""
        ...

    async def connect(self, *, timeout: float) -> None:
        """Make sure that the connection is open. Raises TransportError."""
        ...

    async def close(self) -> None: ...


class Fleet(Protocol):
    """All links of a cluster, one a node, by the node's name."""

    def link(self, node: str) -> Link: ...

    @property
    def names(self) -> tuple[str, ...]: ...

    async def close(self) -> None: ...
