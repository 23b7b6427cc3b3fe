"""One pass of an image along a chain of nodes: each writes to its own engine and hands every block on."""

from __future__ import annotations

import asyncio
import contextlib
import json
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from console.base.text import clean_line
from console.probe import relay_program
from console.telemetry.launch import BOOTSTRAP
from console.transport.base import Fleet, Stream, TransportError

START_S: Final = 30.0
SILENCE_S: Final = 180.0
_LINE: Final = 1 << 16


@dataclass
class Hop:
    """One node of a chain. address: where it is reached by the next. failed: why, empty while all is well; where:
    `link` (its own SSH), `start`, `connect`, `upstream`, `load` or `save`. skip: digests (hex) of layers that a source
    leaves out; left_out: how many it did leave out, which no archive of docker before 25 lets it."""

    node: str
    address: str
    argv: Sequence[str]
    port: int = 0
    moved: int = 0
    skip: Sequence[str] = ()
    left_out: int = 0
    done: bool = False
    where: str = ""
    failed: str = ""
    stream: Stream | None = None
    ready: asyncio.Event = field(default_factory=asyncio.Event)


def program() -> bytes:
    """The relay's text, with the call that starts it."""
    return relay_program()


async def run_chain(fleet: Fleet, hops: Sequence[Hop], moved: Callable[[Hop], None]) -> None:
    """hops[0] is the source. Returns when every hop has ended; each tells for itself how. Cancelling ends all of it on
    the nodes: they end with their SSH channels.

    Why a chain and no tree: every node takes the image once and gives it away at most once, block by block, so N nodes
    are done in the time of one copy and a moment for each link: S/B + (N-1) x block/B. One source to all shares its
    link: N x S/B. A tree whose nodes serve two at once: 2 x S/B. Whole copies that become senders themselves (1, 2, 4,
    ...): log2(N+1) x S/B. A chain goes as fast as its slowest node; where several nodes have the image already, each
    heads a chain of its own. Between nodes the slowest part is `docker load`, which unpacks to disk at 1-2 GB/s [inf];
    a fabric of 25 GB/s is never what is waited for, so nothing is compressed here."""
    token = secrets.token_hex(32)
    async with asyncio.TaskGroup() as group:
        for at, hop in enumerate(hops):
            group.create_task(_hop(fleet, hops, at, token, moved), name=f"image on {hop.node}")


async def _hop(fleet: Fleet, hops: Sequence[Hop], at: int, token: str, moved: Callable[[Hop], None]) -> None:
    hop = hops[at]
    text = program()
    argv = ["python3", "-u", "-I", "-c", BOOTSTRAP, str(len(text))]
    try:
        async with fleet.link(hop.node).stream(argv, stdin=text, interactive=True) as stream:
            hop.stream = stream
            await _order(
                stream,
                do="start",
                role="sink" if at else "source",
                token=token,
                listen=hop.address if at + 1 < len(hops) else None,
                argv=list(hop.argv),
                skip=list(hop.skip),
            )
            await _talk(stream, hops, at, moved)
    except TransportError as error:
        _fail(hop, "link", error.what)
    except TimeoutError:
        _fail(hop, "link", "nothing was heard of it for three minutes")
    finally:
        hop.stream = None
        hop.ready.set()
        moved(hop)
    if hop.failed and hop.where != "load":
        # The neighbours need not find out by waiting.
        for near, word in ((at - 1, "drop"), (at + 1, "abort")):
            if 0 <= near < len(hops):
                await _warn(hops[near], word)


async def _talk(stream: Stream, hops: Sequence[Hop], at: int, moved: Callable[[Hop], None]) -> None:
    hop = hops[at]
    before = hops[at - 1] if at else None
    buffer = b""
    connecting: asyncio.Task[None] | None = None
    blocks = stream.blocks()
    try:
        while True:
            async with asyncio.timeout(START_S if not hop.ready.is_set() else SILENCE_S):
                block = await anext(blocks, b"")
            if not block:
                break
            buffer += block
            *lines, buffer = buffer.split(b"\n")
            if len(buffer) > _LINE:
                _fail(hop, "upstream", "the node said something that cannot be read")
                return
            for line in lines:
                row = _row(line)
                _take(hop, row)
                if "port" in row and before is not None:
                    connecting = asyncio.create_task(_connect(stream, before), name=f"connect {hop.node}")
                moved(hop)
            if hop.done or hop.failed:
                return
        result = stream.result()
        said = clean_line((result.stderr if result else b"").decode("utf-8", "replace")[-300:], limit=300)
        _fail(hop, "start", said or "the relay ended without a word")
    finally:
        if connecting is not None:
            connecting.cancel()
            with contextlib.suppress(asyncio.CancelledError, TransportError):
                await connecting


async def _connect(stream: Stream, before: Hop) -> None:
    """The link before may have failed to listen: then this one is told so by a port that nobody answers."""
    await before.ready.wait()
    await _order(stream, do="connect", host=before.address, port=before.port or 1)


def _take(hop: Hop, row: Mapping[str, Any]) -> None:
    port, moved = row.get("port"), row.get("bytes", row.get("done"))
    if isinstance(port, int):
        hop.port = port
        hop.ready.set()
    if isinstance(left_out := row.get("left_out"), int):
        hop.left_out = left_out
    if isinstance(moved, int):
        hop.moved = moved
    if "done" in row:
        hop.done = True
    if "failed" in row:
        _fail(hop, str(row.get("where") or "upstream"), str(row["failed"]))


def _fail(hop: Hop, where: str, why: str) -> None:
    if not hop.failed and not hop.done:
        hop.where, hop.failed = where, clean_line(why, limit=400) or "no reason given"


def _row(line: bytes) -> Mapping[str, Any]:
    try:
        row = json.loads(line.decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return {}
    return row if isinstance(row, dict) else {}


async def _warn(hop: Hop, word: str) -> None:
    if hop.stream is not None and not hop.done and not hop.failed:
        with contextlib.suppress(TransportError):  # it has ended meanwhile
            await _order(hop.stream, do=word)


async def _order(stream: Stream, **words: object) -> None:
    await stream.send(json.dumps(words).encode() + b"\n")
