"""What is done with a boot's folder after the boot: logs packed and read again, marks, sizes, and one file to send."""

from __future__ import annotations

import gzip
import io
import json
import os
import re
import tarfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from console.base.secrets import mask_text
from console.files.atomic import aside, trouble, write_whole
from console.files.packed import blocks, members, pack

MARKS: Final = "marks.json"
_LOG: Final = re.compile(r"rank([0-9]{1,6})\.log(\.gz)?")
_KEPT: Final = re.compile(
    r"(?:[a-z_]+\.jsonl?|recipe\.toml|rank[0-9]{1,6}\.(?:guard|log(?:\.gz)?)|measure[0-9]*\.json)"
)
_BLOCK: Final = 1 << 20
_LARGEST_MARKS: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class Marks:
    """What the operator said of a boot afterwards; kept beside boot.json, so that it can be written while a console
    still writes the boot."""

    note: str = ""
    starred: bool = False


def read_marks(path: Path) -> Marks:
    """The marks of a boot's folder; none where there are none, or where they cannot be read."""
    try:
        if (path / MARKS).stat().st_size > _LARGEST_MARKS:
            return Marks()
        value = json.loads((path / MARKS).read_bytes())
    except (OSError, ValueError, RecursionError):
        return Marks()
    if not isinstance(value, dict):
        return Marks()
    note = value.get("note")
    return Marks(note if isinstance(note, str) else "", value.get("starred") is True)


def write_marks(path: Path, marks: Marks) -> None:
    """Raises DiskError."""
    row = {"note": marks.note, "starred": marks.starred}
    write_whole(path / MARKS, json.dumps(row, ensure_ascii=False).encode("utf-8", "replace"))


def log_files(path: Path) -> dict[int, Path]:
    """Rank -> its log, packed or plain; the plain one where a crash left both."""
    found: dict[int, Path] = {}
    for file in sorted(path.iterdir()):
        match = _LOG.fullmatch(file.name)
        if match and (match.group(2) is None or int(match.group(1)) not in found):
            found[int(match.group(1))] = file
    return dict(sorted(found.items()))


def read_log(file: Path) -> Iterator[bytes]:
    """A rank's log in blocks, packed or not; of a packed file that is damaged, what can be read.

    Raises DiskError where it cannot be read at all."""
    try:
        if file.suffix == ".gz" and members(file):
            yield from blocks(file)
            return
        with gzip.open(file, "rb") if file.suffix == ".gz" else file.open("rb") as stream:
            while block := stream.read(_BLOCK):
                yield block
    except (EOFError, zlib.error, gzip.BadGzipFile):
        return
    except OSError as error:
        raise trouble("cannot be read", file, error) from error


def pack_logs(path: Path, moved: Callable[[], None] = lambda: None) -> int:
    """Pack every plain log of a boot that is over; returns the bytes saved. A crash at any moment leaves the plain file
    or both. moved: called every few MB. Raises DiskError."""
    saved = 0
    for file in log_files(path).values():
        if file.suffix == ".gz":
            continue
        packed = file.with_name(file.name + ".gz")
        part = aside(packed)
        try:
            with file.open("rb") as source, part.open("wb") as target:
                part.chmod(0o600)
                pack(source, target, moved)
                target.flush()
                os.fsync(target.fileno())
            size = file.stat().st_size
            part.replace(packed)
            file.unlink()
            saved += size - packed.stat().st_size
        except OSError as error:
            part.unlink(missing_ok=True)
            raise trouble("cannot be packed", file, error) from error
    return saved


def folder_bytes(path: Path) -> int:
    """Bytes of the files of one boot; what vanishes meanwhile counts nothing."""
    total = 0
    try:
        with os.scandir(path) as entries:
            for entry in entries:
                try:
                    total += entry.stat(follow_symlinks=False).st_size
                except OSError:  # removed while we look
                    continue
    except FileNotFoundError:
        return 0
    except OSError as error:
        raise trouble("cannot be read", path, error) from error
    return total


def export_boot(path: Path, target: Path, *, secrets: Iterable[str] = ()) -> list[str]:
    """One .tar.gz of a boot's folder, to be sent to others: only the files that a boot has, secrets masked once more.

    secrets: values beyond those that look like secrets. Returns the names within. Raises DiskError."""
    values = tuple(v for v in secrets if len(v) >= 4)
    names: list[str] = []
    part = aside(target, "part")
    try:
        with part.open("wb") as raw:
            part.chmod(0o600)
            with tarfile.open(fileobj=raw, mode="w:gz", compresslevel=6) as tar:
                for file in sorted(p for p in path.iterdir() if _KEPT.fullmatch(p.name)):
                    if file.is_symlink() or not file.is_file():
                        continue
                    name = file.name.removesuffix(".gz")
                    if name in names:
                        continue
                    data = _masked(b"".join(read_log(file)), values)
                    info = tarfile.TarInfo(f"{path.name}/{name}")
                    info.size, info.mode, info.mtime = len(data), 0o600, int(file.stat().st_mtime)
                    tar.addfile(info, io.BytesIO(data))
                    names.append(name)
        part.replace(target)
    except OSError as error:
        part.unlink(missing_ok=True)
        raise trouble("cannot be written", target, error) from error
    return names


def _masked(data: bytes, values: Iterable[str]) -> bytes:
    text = data.decode("utf-8", "surrogateescape")
    return "\n".join(mask_text(line, values) for line in text.split("\n")).encode("utf-8", "surrogateescape")


def read_json(path: Path, *, limit: int = 64 << 20) -> dict[str, Any] | None:
    """A JSON table of a boot's folder, or None where there is none that can be read."""
    try:
        if path.stat().st_size > limit:
            return None
        value = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def read_small(path: Path, *, limit: int = 1 << 20) -> str:
    """A text of a boot's folder up to a size, "" where there is none. Raises DiskError."""
    try:
        with path.open("rb") as file:
            return file.read(limit).decode("utf-8", errors="replace")
    except FileNotFoundError:
        return ""
    except OSError as error:
        raise trouble("cannot be read", path, error) from error


def read_lines(path: Path) -> Iterator[dict[str, Any]]:
    """The tables of a .jsonl file; half a line and other damage are passed over."""
    try:
        with path.open("rb") as file:
            for line in file:
                try:
                    value = json.loads(line)
                except (ValueError, RecursionError):  # half a line, as a crash leaves it
                    continue
                if isinstance(value, dict):
                    yield value
    except FileNotFoundError:
        return
    except OSError as error:
        raise trouble("cannot be read", path, error) from error
