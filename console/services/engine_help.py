"""The flags that an image's own engine knows, as its --help prints them: asked once an image."""

from __future__ import annotations

import asyncio
import contextlib
import re
import secrets
from collections.abc import Sequence
from typing import Final

from console.base.absent import Absent
from console.base.text import decode
from console.services.engine_words import last_words
from console.services.helpers import HELPER_ARGS
from console.transport.base import Link, TransportError

HELP_S: Final = 120.0  # importing the engine takes 10-40 s on a node that has it not in its page cache
# vLLM prints its flags in groups and all of them for `--help=all`, since 0.10; older ones print all for --help.
HELP_WORDS: Final = {"vllm": ("--help=all", "--help"), "sglang": ("--help",)}
_FLAG: Final = re.compile(r"(?<![\w-])(--[a-zA-Z][\w-]*)")


async def known_flags(
    link: Link, cli: str, image: str, entrypoint: Sequence[str] | None, ways: Sequence[str]
) -> frozenset[str] | Absent:
    """Long flags of `IMAGE WAY`, by the first of the ways that names any. entrypoint: of the recipe or of the engine's
    module; None: the image's own."""
    found: frozenset[str] | Absent = Absent("there is no way to ask")
    for way in ways:
        found = await _ask(link, cli, image, entrypoint, way)
        if not isinstance(found, Absent):
            return found
    return found


async def _ask(link: Link, cli: str, image: str, entrypoint: Sequence[str] | None, way: str) -> frozenset[str] | Absent:
    name = f"nd-help-{secrets.token_hex(4)}"
    argv = [cli, "run", "--rm", "--name", name, *HELPER_ARGS, "--pull", "never", "--network", "none"]
    rest: list[str] = []
    if entrypoint:
        argv += ["--entrypoint", entrypoint[0]]
        rest = list(entrypoint[1:])
    try:
        done = await link.run([*argv, image, *rest, way], timeout=HELP_S, limit=8 << 20)
    except TransportError as error:
        return Absent(error.what)
    finally:
        # An image that takes --help for a start would run on: ending its client does not end it.
        await asyncio.shield(_remove(link, cli, name))
    flags = frozenset(_FLAG.findall(decode(done.stdout)))
    if not done.ok or len(flags) < 10:  # an engine has hundreds; fewer is something else's help
        return Absent(last_words(done) or f"--help named {len(flags)} flags, exit status {done.status}")
    return flags


async def _remove(link: Link, cli: str, name: str) -> None:
    with contextlib.suppress(TransportError):  # the node went away: nothing can be removed there now
        await link.run([cli, "rm", "-f", name], timeout=15.0)
