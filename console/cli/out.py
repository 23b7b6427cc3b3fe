"""Where a command's words go: data to stdout, messages to stderr, nothing hostile to either."""

from __future__ import annotations

import contextlib
import io
import json
import math
import os
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, TextIO

from console.base.text import clean_line
from console.cli.beside import Beside, descriptor_of

# What JSON lets stand and a terminal obeys: DEL, C1 controls and marks that turn the direction of text.
_STEERING: Final = re.compile("[\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]")


class Out:
    """people: a terminal reads stdout. as_json: scripts do."""

    def __init__(self, *, as_json: bool, stdout: TextIO | None = None, stderr: TextIO | None = None) -> None:
        self.as_json = as_json
        self._out = _stream(stdout if stdout is not None else sys.stdout, data=as_json)
        self._err = _stream(stderr if stderr is not None else sys.stderr, data=False)
        self.terminal = self._out.isatty()
        self._beside: Beside | None = None

    def go_beside(self) -> None:
        """Write stdout by a thread from now on, for a command that watches while it prints."""
        if self._beside is None and (descriptor := descriptor_of(self._out)) is not None:
            self._beside = Beside(descriptor, self._lost, encoding=self._out.encoding or "utf-8")

    def _lost(self, count: int) -> str:
        if self.as_json:
            return json.dumps({"event": "output_lost", "count": count}) + "\n"
        return f"({count} lines are not shown: nobody read them)\n"

    def _write(self, text: str) -> None:
        (self._beside or self._out).write(text.encode("utf-8", "replace").decode("utf-8") + "\n")

    def data(self, value: Mapping[str, Any], *, line: bool = False) -> None:
        """One JSON object: indented, or on one line where many follow each other."""
        indent = None if line else 2
        try:
            text = json.dumps(value, ensure_ascii=False, indent=indent, default=str, allow_nan=False)
        except ValueError:  # a figure that is not finite is none, and JSON has no word for it
            text = json.dumps(_finite(value), ensure_ascii=False, indent=indent, default=str)
        text = _STEERING.sub(lambda found: f"\\u{ord(found[0]):04x}", text)
        self._write(text)
        self.flush()

    def line(self, text: str = "") -> None:
        """A line of the result, on stdout."""
        self._write(clean_line(text, limit=20_000))

    def flush(self) -> None:
        if self._beside is None:
            self._out.flush()

    def finish(self, timeout: float | None = None) -> None:
        """Until all is written; at most `timeout` seconds where somebody may have stopped reading."""
        if self._beside is None:
            self._out.flush()
        else:
            self._beside.drain(timeout)

    def say(self, text: str) -> None:
        """A message about the work, on stderr; several lines stay several. Where stderr is full, nobody hears it."""
        try:
            for line in text.split("\n")[:200]:
                self._err.write(clean_line(line, limit=20_000).encode("utf-8", "replace").decode("utf-8") + "\n")
            self._err.flush()
        except OSError:
            # What is held goes nowhere: else the interpreter tries once more as it ends, and its exit code is not ours.
            with contextlib.suppress(OSError, ValueError):
                null = os.open(os.devnull, os.O_WRONLY)
                os.dup2(null, self._err.fileno())
                os.close(null)

    def table(self, heads: Sequence[str], rows: Sequence[Sequence[str]], *, right: Sequence[int] = ()) -> None:
        """Columns as wide as what they hold; plain text, the same piped or not."""
        cells = [[clean_line(c, limit=400) for c in row] for row in rows]
        widths = [max([len(h), *(len(r[i]) for r in cells)]) for i, h in enumerate(heads)]
        for row in [list(heads), *cells]:
            parts = [c.rjust(w) if i in right else c.ljust(w) for i, (c, w) in enumerate(zip(row, widths, strict=True))]
            self.line("  ".join(parts).rstrip())


def _stream(stream: TextIO | None, *, data: bool) -> TextIO:
    """A stream that takes every character: JSON is UTF-8 whatever the locale, text is spelt as the locale can."""
    if stream is None:  # closed by whoever started this process
        return Path(os.devnull).open("w", encoding="utf-8")
    if isinstance(stream, io.TextIOWrapper):
        if data:
            stream.reconfigure(encoding="utf-8", errors="replace")
        else:
            stream.reconfigure(errors="replace")
    return stream


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {k: _finite(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(v) for v in value]
    return value
