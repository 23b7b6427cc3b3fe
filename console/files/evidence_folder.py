"""Saved evidence of a boot as streams of bytes: logs of one or many ranks, a folder of them, or standard input."""

from __future__ import annotations

import json
import re
import zlib
from bz2 import BZ2Decompressor
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from lzma import LZMADecompressor, LZMAError
from pathlib import Path
from typing import Any, BinaryIO, Final

from console.base.errors import FileError
from console.files.read import read_text

STATES: Final = "states.json"
_CHUNK: Final = 1 << 18
_STATES_LIMIT: Final = 16 << 20
_GZIP: Final = b"\x1f\x8b"
_BZIP2: Final = b"BZh"
_XZ: Final = b"\xfd7zXZ\x00"
# What `xz -9` needs is 65 MiB; a stream may ask for gigabytes.
_XZ_MEMORY: Final = 256 << 20
# What no module of Python's own unpacks, and what does.
_PACKED: Final = {
    b"\x28\xb5\x2f\xfd": ("zstd", "zstd -dc"),
    b"\x04\x22\x4d\x18": ("lz4", "lz4 -dc"),
    b"PK\x03\x04": ("zip", "unzip -p"),
    b"7z\xbc\xaf": ("7-Zip", "7z x -so"),
}
_RANK: Final = re.compile(r"rank[-_]?(\d{1,4})(?!\d)", re.IGNORECASE)
_LOGS: Final = (".log", ".txt", ".out", ".err", ".gz", ".bz2", ".xz")


@dataclass(frozen=True, slots=True)
class LogFile:
    """A log on disk, or standard input where path is None. rank: what its name says."""

    name: str
    path: Path | None
    rank: int | None = None


@dataclass(frozen=True, slots=True)
class EvidenceFiles:
    """states: the content of states.json, unchecked; None where there is none. kernel, guard: what lies beside the logs
    of a rank by its name (`rankR.dmesg`, `rankR.memguard`)."""

    logs: tuple[LogFile, ...]
    states: dict[str, Any] | None = None
    kernel: dict[int, str] = field(default_factory=dict)
    guard: dict[int, str] = field(default_factory=dict)


def find_evidence(names: list[str]) -> EvidenceFiles:
    """What is named on a command line: files, one folder, `-` or nothing for standard input. Raises FileError."""
    if not names or names == ["-"]:
        return EvidenceFiles((LogFile("-", None),))
    logs: list[LogFile] = []
    found = EvidenceFiles(())
    for name in names:
        path = Path(name)
        if name == "-":
            logs.append(LogFile("-", None))
        elif path.is_dir():
            if len(names) > 1 and found.states is not None:
                raise FileError("only one folder of evidence at a time", file=name)
            found = _folder(path)
            logs += found.logs
        elif path.name == STATES:
            found = EvidenceFiles((), _states(path))
        else:
            logs.append(LogFile(name, path, rank_of(path.name)))
    return EvidenceFiles(tuple(logs), found.states, found.kernel, found.guard)


def rank_of(name: str) -> int | None:
    """The rank that a file's name says: `rank3.log`, `boot7-rank_3-docker.txt`."""
    found = _RANK.search(name)
    return int(found[1]) if found else None


def stream(log: LogFile, stdin: BinaryIO, cut: Callable[[str], None] = lambda _why: None) -> Iterator[bytes]:
    """Pieces of a log, unpacked where it is gzip, bzip2 or xz. Memory stays bounded whatever its length. Raises
    FileError, for a log that is packed otherwise too. cut: told where a packed log is damaged or ends before its end;
    what could be unpacked was given."""
    if log.path is None:
        yield from _pieces(stdin, log.name, cut)
        return
    try:
        with log.path.open("rb") as file:
            yield from _pieces(file, log.name, cut)
    except OSError as error:
        raise FileError(f"cannot be read: {error.strerror or error}", file=log.name) from error


def _pieces(file: BinaryIO, name: str, cut: Callable[[str], None]) -> Iterator[bytes]:
    first = file.read(_CHUNK)
    for magic, (kind, command) in _PACKED.items():
        if first.startswith(magic):
            raise FileError(
                f"compressed with {kind}: unpack it first (`{command} {name} | nightdeck diagnose -`)", file=name
            )
    _no_archive(first, name)
    for magic, (kind, new) in _UNPACKERS.items():
        if first.startswith(magic):
            yield from _unpacked(file, first, name, kind, new, cut)
            return
    while first:
        yield first
        first = file.read(_CHUNK)


def _no_archive(first: bytes, name: str) -> None:
    if first[257:262] == b"ustar":
        raise FileError(f"a tar archive: unpack it first (`tar -xf {name}`), and give the folder", file=name)


class _Gzip:
    """zlib's way of unpacking, in the words of the other two."""

    def __init__(self) -> None:
        self._unpack = zlib.decompressobj(wbits=31)
        self._held = b""

    @property
    def eof(self) -> bool:
        return self._unpack.eof

    @property
    def needs_input(self) -> bool:
        return not self._held and not self.eof

    @property
    def unused_data(self) -> bytes:
        return self._unpack.unused_data

    def decompress(self, data: bytes, max_length: int) -> bytes:
        piece = self._unpack.decompress(self._held + data, max_length)
        self._held = self._unpack.unconsumed_tail
        return piece


_UNPACKERS: Final[dict[bytes, tuple[str, Callable[[], Any]]]] = {
    _GZIP: ("gzip", _Gzip),
    _BZIP2: ("bzip2", BZ2Decompressor),
    _XZ: ("xz", lambda: LZMADecompressor(memlimit=_XZ_MEMORY)),
}


def _unpacked(
    file: BinaryIO, data: bytes, name: str, kind: str, new: Callable[[], Any], cut: Callable[[str], None]
) -> Iterator[bytes]:
    """One or many streams, one after the other, as rotated logs are; padding between them is passed over."""
    magic = next(m for m, (k, _) in _UNPACKERS.items() if k == kind)
    unpack = new()
    given = False
    while True:
        try:
            piece = unpack.decompress(data, _CHUNK)
        except (OSError, LZMAError, zlib.error) as error:
            if not given:
                raise FileError(f"a {kind} file that is damaged: {error}", file=name) from error
            cut(f"{name}: a {kind} file that is damaged ({error}): what follows is not read")
            return
        if piece:
            if not given:
                _no_archive(piece, name)
            given = True
            yield piece
        data = b""
        if unpack.eof:
            data = unpack.unused_data.lstrip(b"\0")
            while not data and (more := file.read(_CHUNK)):
                data = more.lstrip(b"\0")
            if not data:
                return
            if not data.startswith(magic[: len(data)]):
                cut(f"{name}: what follows the {kind} stream is not {kind}, and is not read")
                return
            unpack = new()
        elif unpack.needs_input:
            data = file.read(_CHUNK)
            if not data:
                cut(f"{name}: a {kind} file that ends before its end: the rest of the log is missing")
                return


def _folder(folder: Path) -> EvidenceFiles:
    try:
        entries = sorted(folder.iterdir())
    except OSError as error:
        raise FileError(f"cannot be read: {error.strerror or error}", file=str(folder)) from error
    states = _states(folder / STATES) if (folder / STATES).exists() else None
    logs: list[LogFile] = []
    kernel: dict[int, str] = {}
    guard: dict[int, str] = {}
    for path in entries:
        rank = rank_of(path.name)
        if not path.is_file() or path.name == STATES:
            continue
        if rank is not None and path.suffix in (".dmesg", ".kern"):
            kernel[rank] = _text(path)
        elif rank is not None and path.suffix in (".memguard", ".guard"):
            guard[rank] = _text(path)
        elif path.suffix in _LOGS and path.suffixes[-1:] != [".json"]:
            logs.append(LogFile(str(path), path, rank))
    if any(log.rank is not None for log in logs):
        # Beside `rankR.log` other texts may lie that are no logs of ranks.
        logs = [log for log in logs if log.rank is not None]
    if not logs and states is None:
        raise FileError("no log (rank0.log, …) and no states.json in this folder", file=str(folder))
    return EvidenceFiles(tuple(logs), states, kernel, guard)


def _text(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return file.read(1 << 20).decode("utf-8", errors="replace")
    except OSError as error:
        raise FileError(f"cannot be read: {error.strerror or error}", file=str(path)) from error


def _states(path: Path) -> dict[str, Any]:
    text = read_text(path, largest=_STATES_LIMIT)
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        line = getattr(error, "lineno", None)
        raise FileError(f"not JSON: {error}", file=str(path), line=line) from error
    if not isinstance(value, dict):
        raise FileError("must be a JSON object", file=str(path))
    return value
