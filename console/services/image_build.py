"""Building an image on one node from a folder of the operator's, its log followed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Final

from console.base.errors import NightdeckError
from console.base.text import clean_bytes
from console.files.build_context import context_pieces
from console.services.images import Image, inspect
from console.transport.base import Fleet, Stream, TransportError

# BuildKit writes its progress to stderr, of which a stream keeps only the end.
_MERGED: Final = 'exec "$@" 2>&1'
_TAIL: Final = 12


async def build_image(
    fleet: Fleet, node: str, cli: str, image: str, folder: Path, *, said: Callable[[str], None]
) -> Image:
    """Build `image` on `node` from `folder`. said: hears each clean line of the build. Raises NightdeckError with the
    last lines where the build fails. Cancelling ends it on the node."""
    argv = ["sh", "-c", _MERGED, "sh", cli, "build", "-t", image, "-"]
    last: list[str] = []
    try:
        async with fleet.link(node).stream(argv, interactive=True) as stream:
            sending = asyncio.create_task(_send(stream, folder), name=f"build context to {node}")
            try:
                async for line in _lines(stream):
                    last = [*last[1 - _TAIL :], line]
                    said(line)
                result = stream.result()
                await _over(sending)
            finally:
                sending.cancel()
                await asyncio.gather(sending, return_exceptions=True)
    except TransportError as error:
        raise NightdeckError(f"the build on {node} broke off: {error.what}", where=node) from error
    except OSError as error:
        raise NightdeckError(f"{folder} cannot be read: {error.strerror}") from error
    if result is None or not result.ok:
        raise NightdeckError("the build failed: " + " / ".join(last[-4:]), where=node)
    built = await inspect(fleet.link(node), cli, image)
    if not isinstance(built, Image):
        raise NightdeckError("the build ended well, and the image is not there", where=node)
    return built


async def _over(sending: asyncio.Task[None]) -> None:
    """A build that ended needs no more input; what kept the folder from being read is an error all the same."""
    if sending.done() and isinstance(error := sending.exception(), OSError):
        raise error


async def _send(stream: Stream, folder: Path) -> None:
    pieces: Iterator[bytes] = iter(context_pieces(folder))
    try:
        while (piece := await asyncio.to_thread(next, pieces, None)) is not None:
            if piece:
                await stream.send(piece)
        await stream.end_input()
    except TransportError:
        return  # the build ended before it had read all; its log says why
    except OSError:
        await stream.end_input()  # half a context is refused by the engine
        raise


async def _lines(stream: Stream) -> AsyncIterator[str]:
    rest = b""
    async for block in stream.blocks():
        *lines, rest = (rest + block).replace(b"\r", b"\n").split(b"\n")
        for line in lines:
            if line.strip():
                yield clean_bytes(line, limit=2000)
        rest = rest[-65536:]
    if rest.strip():
        yield clean_bytes(rest, limit=2000)
