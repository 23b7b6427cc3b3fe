"""Text with roles instead of colours: what panes are made of before a theme paints them."""

from __future__ import annotations

from collections.abc import Iterable

from rich.cells import cell_len, set_cell_size

from console.base.text import clean_line

Span = tuple[str, str]
"""(text, role): a role is a name of `paint.ROLES`, optionally followed by `bold`, `dim`, `reverse`, `underline`."""

Line = tuple[Span, ...]

ELLIPSIS = "…"


def safe(text: object, *, limit: int = 400) -> str:
    """Text from outside made drawable: control codes and escapes gone, cut at `limit` characters."""
    return clean_line(str(text).replace("\n", " ").replace("\r", " "), limit=limit)


def width_of(text: str) -> int:
    """Terminal cells that `text` takes."""
    return len(text) if text.isascii() else cell_len(text)


def fit(text: str, width: int, align: str = "<") -> str:
    """`text` in exactly `width` cells: padded (`<` left, `>` right, `^` centre) or cut with an ellipsis."""
    if width <= 0:
        return ""
    have = width_of(text)
    if have > width:
        return set_cell_size(text, width - 1) + ELLIPSIS if width > 1 else set_cell_size(text, width)
    pad = width - have
    if align == ">":
        return " " * pad + text
    if align == "^":
        return " " * (pad // 2) + text + " " * (pad - pad // 2)
    return text + " " * pad


def fit_name(text: str, width: int) -> str:
    """A name in exactly `width` cells, cut in the middle: what tells two of a kind apart stands at the end."""
    if width_of(text) <= width or width < 5:
        return fit(text, width)
    tail = (width - 1) * 2 // 3
    end = text[-tail:]
    while width_of(end) > tail:
        end = end[1:]
    return fit(set_cell_size(text, width - 1 - width_of(end)) + ELLIPSIS + end, width)


def line_width(line: Iterable[Span]) -> int:
    return sum(width_of(text) for text, _ in line)


def plain(line: Iterable[Span]) -> str:
    """The text alone."""
    return "".join(text for text, _ in line)


def clip(line: Iterable[Span], width: int, fill: str = "text") -> Line:
    """The line in exactly `width` cells."""
    out: list[Span] = []
    left = width
    for text, role in line:
        if not text:
            continue
        need = width_of(text)
        if need >= left:
            out.append((fit(text, left), role))
            left = 0
            break
        out.append((text, role))
        left -= need
    if left > 0:
        out.append((" " * left, fill))
    return tuple(out)


def spread(left: Iterable[Span], right: Iterable[Span], width: int) -> Line:
    """`left` and `right` at the two ends of `width` cells; the left side is cut first."""
    right = tuple(right)
    tail = clip(right, min(width, line_width(right)))
    return clip(left, width - line_width(tail)) + tail


def wrap(text: str, width: int, *, limit: int) -> list[str]:
    """Text broken at spaces into at most `limit` lines of `width` cells; the last is cut with an ellipsis."""
    width = max(width, 4)
    lines: list[str] = []
    rest = text.strip()
    while rest:
        if width_of(rest) <= width:
            lines.append(rest)
            break
        if len(lines) == limit - 1:
            lines.append(fit(rest, width))
            break
        head = set_cell_size(rest, width)
        space = head.rfind(" ")
        cut = space if space > width // 3 else len(head.rstrip("\x00")) or width
        lines.append(rest[:cut].rstrip())
        rest = rest[cut:].lstrip()
    return lines


def wrap_spans(lead: Span, text: str, role: str, width: int, *, limit: int) -> list[Line]:
    """A label and its wrapped text, continued under the text."""
    indent = width_of(lead[0])
    rows = wrap(text, width - indent, limit=limit) or [""]
    return [((lead if i == 0 else (" " * indent, "text")), (row, role)) for i, row in enumerate(rows)]
