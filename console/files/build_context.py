"""A folder as the tar that an image is built from, piece by piece: nothing is held in memory or on disk."""

from __future__ import annotations

import os
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from console.base.errors import UsageError

PIECE: Final = 1 << 18
_SKIP: Final = frozenset({".git", ".hg", ".svn", "__pycache__"})


class _Pieces:
    """What tarfile writes, handed on as it comes."""

    def __init__(self) -> None:
        self.held = bytearray()

    def write(self, data: bytes) -> int:
        self.held += data
        return len(data)

    def take(self) -> bytes:
        data = bytes(self.held)
        self.held.clear()
        return data


def find_context(recipe_file: str, folder: str) -> Path:
    """`images/<folder>` beside the folder that holds the recipe's. Raises UsageError where there is none, where it
    has no Dockerfile, and for a name that leads elsewhere."""
    shelf = Path(recipe_file).resolve().parent.parent
    top = shelf.parent / "images"
    path = (top / folder).resolve()
    if top.resolve() not in path.parents:
        raise UsageError(f"docker_image_dir {folder!r} leads out of {top}", where=recipe_file)
    if not path.is_dir():
        raise UsageError(f"there is no folder {path}", where=recipe_file, remedy="put the Dockerfile there")
    if not (path / "Dockerfile").is_file():
        raise UsageError(f"{path} has no Dockerfile", where=recipe_file)
    return path


def context_pieces(folder: Path) -> Iterator[bytes]:
    """The tar in pieces. Owners and times are left out, so that equal folders give equal tars. Raises OSError."""
    out = _Pieces()
    with tarfile.open(fileobj=out, mode="w|", format=tarfile.PAX_FORMAT) as tar:  # type: ignore[call-overload]
        for path in _walk(folder):
            info = tar.gettarinfo(path, arcname=str(path.relative_to(folder)))
            if info is None:
                continue  # a socket
            info.uid = info.gid = 0
            info.uname = info.gname = ""
            info.mtime = 0
            if info.isreg():
                with path.open("rb") as file:
                    tar.addfile(info, file)
            else:
                tar.addfile(info)
            if len(out.held) >= PIECE:
                yield out.take()
    yield out.take()


def _walk(folder: Path) -> Iterator[Path]:
    for root, folders, files in os.walk(folder):
        folders[:] = sorted(f for f in folders if f not in _SKIP)
        for name in sorted([*folders, *files]):
            yield Path(root) / name
