"""Where a command's words go: data to stdout, messages to stderr, nothing hostile to either."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from typing import Any, TextIO

from console.base.text import clean_line


class Out:
    """people: a terminal reads stdout. as_json: scripts do."""

    def __init__(self, *, as_json: bool, stdout: TextIO | None = None, stderr: TextIO | None = None) -> None:
        self.as_json = as_json
        self._out = stdout if stdout is not None else sys.stdout
        self._err = stderr if stderr is not None else sys.stderr
        self.terminal = self._out.isatty()

    def data(self, value: Mapping[str, Any], *, line: bool = False) -> None:
        """One JSON object: indented, or on one line where many follow each other."""
        text = json.dumps(value, ensure_ascii=False, indent=None if line else 2, default=str)
        self._out.write(text.encode("utf-8", "replace").decode("utf-8") + "\n")
        self._out.flush()

    def line(self, text: str = "") -> None:
        """A line of the result, on stdout."""
        self._out.write(clean_line(text, limit=20_000).encode("utf-8", "replace").decode("utf-8") + "\n")

    def flush(self) -> None:
        self._out.flush()

    def say(self, text: str) -> None:
        """A message about the work, on stderr."""
        self._err.write(clean_line(text, limit=20_000).encode("utf-8", "replace").decode("utf-8") + "\n")
        self._err.flush()

    def table(self, heads: Sequence[str], rows: Sequence[Sequence[str]], *, right: Sequence[int] = ()) -> None:
        """Columns as wide as what they hold; plain text, the same piped or not."""
        cells = [[clean_line(c, limit=400) for c in row] for row in rows]
        widths = [max([len(h), *(len(r[i]) for r in cells)]) for i, h in enumerate(heads)]
        for row in [list(heads), *cells]:
            parts = [c.rjust(w) if i in right else c.ljust(w) for i, (c, w) in enumerate(zip(row, widths, strict=True))]
            self.line("  ".join(parts).rstrip())
