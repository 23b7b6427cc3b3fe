"""Where each key and value of a TOML text stands, so that an error can point at it."""

from __future__ import annotations

import bisect
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import tomli

from console.base.errors import FileError
from console.base.text import clean_line

Path = tuple[str | int, ...]
MAX_DEPTH: Final = 64  # brackets within brackets: deeper ones are stepped over, not recorded
_BARE: Final = re.compile(r"[A-Za-z0-9_\-]+")
_BLANK: Final = re.compile(r"(?:[ \t\r\n]+|#[^\n]*)*")
_ATOM: Final = re.compile(r"[^,\]\}\n#]*")
_ESCAPE: Final = re.compile(r"\\(?:u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8})|x([0-9A-Fa-f]{2})|(.))", re.DOTALL)
_ESCAPED: Final = {"b": "\b", "t": "\t", "n": "\n", "f": "\f", "r": "\r", "e": "\x1b"}


@dataclass(frozen=True, slots=True)
class Span:
    """A piece of the text: `start` and `end` are offsets in characters, `end` exclusive."""

    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Document:
    """A parsed TOML text. `keys` and `values` map a path (`("args", 6)`) to where its key and its value stand."""

    text: str
    file: str
    data: Mapping[str, Any]
    keys: Mapping[Path, Span] = field(default_factory=dict)
    values: Mapping[Path, Span] = field(default_factory=dict)
    line_starts: Sequence[int] = (0,)

    def place(self, path: Path, *, value: bool = False) -> tuple[int, int]:
        """Line and column, from 1, of a key (or its value); of the nearest table around it where it has none."""
        first, second = (self.values, self.keys) if value else (self.keys, self.values)
        for n in range(len(path), 0, -1):
            span = first.get(path[:n]) or second.get(path[:n])
            if span is not None:
                return self.line_column(span.start)
        return 1, 1

    def line_column(self, offset: int) -> tuple[int, int]:
        """Line and column, from 1, of an offset."""
        line = bisect.bisect_right(self.line_starts, offset)
        return line, offset - self.line_starts[line - 1] + 1

    def error(self, message: str, path: Path, *, value: bool = True, remedy: str = "") -> FileError:
        """A `FileError` that points at the value (or the key) of `path`."""
        line, column = self.place(path, value=value)
        return FileError(message, file=self.file, line=line, column=column, key=key_text(path), remedy=remedy)


def key_text(path: Path) -> str:
    """A path as a person writes it: `smoke.checks[2].expect`; entries of lists count from 1."""
    out = ""
    for part in path:
        if isinstance(part, int):
            out += f"[{part + 1}]"
        else:
            name = part if _BARE.fullmatch(part) else '"' + clean_line(part, limit=80).replace('"', '\\"') + '"'
            out += f".{name}" if out else name
    return out


def load_document(text: str, file: str) -> Document:
    """Parse TOML 1.0/1.1. Raises FileError with line and column for anything that is not TOML.

    A byte order mark at the start is skipped, and CRLF is read as LF: offsets are those of the text so read.
    """
    text = text.removeprefix("\ufeff").replace("\r\n", "\n")
    try:
        data = tomli.loads(text)
    except tomli.TOMLDecodeError as error:
        message = clean_line(str(error.msg), limit=200)
        twice = message.startswith(("Cannot overwrite", "Cannot declare", "Duplicate"))
        remedy = "the same key or table stands above it: keep one of the two" if twice else ""
        raise FileError(
            f"not TOML: {message}", file=file, line=error.lineno, column=error.colno, remedy=remedy
        ) from error
    except RecursionError as error:
        raise FileError("brackets nested too deep", file=file, line=1, column=1) from error
    except ValueError as error:  # a number of thousands of digits: Python refuses to convert it
        raise FileError(f"not TOML: {clean_line(str(error), limit=200)}", file=file, line=1, column=1) from error
    scan = _Scan(text)
    scan.run()
    starts = [0, *(match.end() for match in re.finditer("\n", text))]
    return Document(text=text, file=file, data=data, keys=scan.keys, values=scan.values, line_starts=starts)


class _Scan:
    """One pass over a text that tomli has accepted, so that only well-formed TOML has to be followed."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.keys: dict[Path, Span] = {}
        self.values: dict[Path, Span] = {}
        self.counts: dict[Path, int] = {}  # arrays of tables: how many so far

    def peek(self, n: int = 1) -> str:
        return self.text[self.at : self.at + n]

    def blank(self) -> None:
        match = _BLANK.match(self.text, self.at)
        self.at = match.end() if match else self.at

    def run(self) -> None:
        table: Path = ()
        while True:
            self.blank()
            if self.at >= len(self.text):
                return
            before = self.at
            if self.peek() == "[":
                table = self.header()
            else:
                self.pair(table, 0)
            if self.at == before:
                return  # not well-formed after all: what was found so far stands

    def header(self) -> Path:
        double = self.peek(2) == "[["
        self.at += 2 if double else 1
        parts = self.dotted()
        self.at += 2 if double else 1
        path: Path = ()
        for i, (name, span) in enumerate(parts):
            path = (*path, name)
            self.keys.setdefault(path, span)
            if double and i == len(parts) - 1:
                self.counts[path] = self.counts.get(path, -1) + 1
            if path in self.counts:
                path = (*path, self.counts[path])
                self.keys.setdefault(path, span)
        return path

    def dotted(self) -> list[tuple[str, Span]]:
        parts: list[tuple[str, Span]] = []
        while True:
            self.spaces()
            start = self.at
            if self.peek() in ('"', "'"):
                raw = self.string()
                name = _unescape(raw[1:-1]) if raw[0] == '"' else raw[1:-1]
            else:
                match = _BARE.match(self.text, self.at)
                if match is None:
                    return parts
                name, self.at = match.group(), match.end()
            parts.append((name, Span(start, self.at)))
            self.spaces()
            if self.peek() != ".":
                return parts
            self.at += 1

    def spaces(self) -> None:
        while self.peek() in (" ", "\t"):
            self.at += 1

    def pair(self, table: Path, depth: int) -> None:
        path = table
        for name, span in self.dotted():
            path = (*path, name)
            self.keys.setdefault(path, span)
        if self.peek() == "=":
            self.at += 1
            self.value(path, depth)

    def value(self, path: Path, depth: int) -> None:
        self.spaces()
        start = self.at
        head = self.peek()
        if head in ('"', "'"):
            self.string()
        elif head in ("[", "{"):
            if depth >= MAX_DEPTH:
                self.step_over()
            elif head == "[":
                self.array(path, depth)
            else:
                self.inline_table(path, depth)
        else:
            match = _ATOM.match(self.text, self.at)
            if match is not None:
                self.at += len(match.group().rstrip())
        self.values[path] = Span(start, self.at)

    def array(self, path: Path, depth: int) -> None:
        self.at += 1
        index = 0
        while self.at < len(self.text):
            self.blank()
            before = self.at
            if self.peek() == "]":
                self.at += 1
                return
            if self.peek() == ",":
                self.at += 1
                continue
            self.value((*path, index), depth + 1)
            index += 1
            if self.at == before:
                return

    def inline_table(self, path: Path, depth: int) -> None:
        self.at += 1
        while self.at < len(self.text):
            self.blank()
            before = self.at
            if self.peek() == "}":
                self.at += 1
                return
            if self.peek() == ",":
                self.at += 1
                continue
            self.pair(path, depth + 1)
            if self.at == before:
                return

    def step_over(self) -> None:
        open_brackets = 0
        while self.at < len(self.text):
            self.blank()
            char = self.peek()
            if char in ('"', "'"):
                self.string()
                continue
            self.at += 1
            if char in ("[", "{"):
                open_brackets += 1
            elif char in ("]", "}"):
                open_brackets -= 1
                if open_brackets == 0:
                    return

    def string(self) -> str:
        """Step over a string of any of the four kinds; its raw text with the quotes."""
        start = self.at
        quote = self.peek()
        long = self.peek(3) == quote * 3
        self.at += 3 if long else 1
        while self.at < len(self.text):
            char = self.peek()
            if char == "\\" and quote == '"':
                self.at += 2
            elif char != quote:
                self.at += 1
            elif not long:
                self.at += 1
                break
            elif self.peek(3) == quote * 3:
                self.at += 3
                # up to two quotes may stand right before the closing three
                while self.peek() == quote:
                    self.at += 1
                break
            else:
                self.at += 1
        return self.text[start : self.at]


def _unescape(raw: str) -> str:
    def one(match: re.Match[str]) -> str:
        code = match.group(1) or match.group(2) or match.group(3)
        if code is None:
            return _ESCAPED.get(match.group(4), match.group(4))
        return chr(int(code, 16))

    return _ESCAPE.sub(one, raw)
