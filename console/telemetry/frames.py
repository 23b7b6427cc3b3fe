"""Bytes of a probe made into frames: half frames, garbage and endless lines are told apart, and nothing raises."""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from console.base.text import clean_bytes

MAX_LINE: Final = 256 << 10  # the probe's own limit is 192 KiB
_HEADER: Final = re.compile(rb"ND1 (\d{1,12}) (\d{1,7}) ([0-9a-f]{8}) ")


@dataclass(frozen=True, slots=True)
class Frame:
    """A frame that arrived whole. seq: its number. data: the JSON object, of any shape: read it with care."""

    seq: int
    data: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Bad:
    """Bytes that are no frame. excerpt: their beginning, safe to show."""

    reason: str
    excerpt: str


class FrameReader:
    """Takes blocks as they come, keeps the incomplete rest; at most MAX_LINE bytes are held."""

    def __init__(self) -> None:
        self._rest = bytearray()
        self._skipping = False

    def feed(self, data: bytes) -> list[Frame | Bad]:
        """Frames and bad bytes of this block, in their order."""
        out: list[Frame | Bad] = []
        at = 0
        while (end := data.find(b"\n", at)) >= 0:
            self._keep(data[at:end], out)
            at = end + 1
            line = bytes(self._rest)
            self._rest.clear()
            if self._skipping:
                self._skipping = False
            else:
                out.extend(_read_line(line))
        self._keep(data[at:], out)
        return out

    def _keep(self, piece: bytes, out: list[Frame | Bad]) -> None:
        if self._skipping:
            return
        self._rest += piece
        if len(self._rest) > MAX_LINE:
            out.append(Bad(f"a line of more than {MAX_LINE} bytes", clean_bytes(bytes(self._rest[:200]), limit=200)))
            self._rest.clear()
            self._skipping = True


def _read_line(line: bytes) -> list[Frame | Bad]:
    line = line.rstrip(b"\r")
    reason = "not a frame"
    for found in _HEADER.finditer(line):
        body = line[found.end() :]
        if len(body) != int(found[2]):
            reason = f"half a frame: {len(body)} of {int(found[2])} bytes"
        elif zlib.crc32(body) != int(found[3], 16):
            reason = "a damaged frame: its checksum differs"
        else:
            data = _object(body)
            if data is None:
                reason = "a frame that holds no JSON object"
                continue
            before = line[: found.start()]
            frame = Frame(int(found[1]), data)
            return [Bad("text before a frame", clean_bytes(before, limit=200)), frame] if before.strip() else [frame]
    return [Bad(reason, clean_bytes(line, limit=200))] if line.strip() else []


def _object(body: bytes) -> dict[str, Any] | None:
    try:
        data = json.loads(body, parse_constant=_refuse)
    except (ValueError, RecursionError):
        return None
    return data if isinstance(data, dict) else None


def _refuse(word: str) -> float:
    raise ValueError(word)
