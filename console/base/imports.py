"""Importing a library that looks for others: without the compiler that ctypes would run to find what is not there."""

from __future__ import annotations

import ctypes.util
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def without_compiler() -> Iterator[None]:
    """For the length of the block `ctypes.util.find_library` asks the linker's cache alone.

    It runs gcc and ld for each library that the cache does not know, as asyncssh's optional ones: a fifth of a second
    of a command's start. What only a compiler finds is not loaded; nothing of ours needs it."""
    names = [name for name in ("_findLib_gcc", "_findLib_ld") if hasattr(ctypes.util, name)]
    kept = {name: getattr(ctypes.util, name) for name in names}
    for name in names:
        setattr(ctypes.util, name, _found_nothing)
    try:
        yield
    finally:
        for name, function in kept.items():
            setattr(ctypes.util, name, function)


def _found_nothing(_library: str) -> None:
    """As ctypes says it."""
