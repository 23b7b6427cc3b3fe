"""What the signs mean, in words: for the page of keys on screen and in the manual. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from console.tui.glyphs import UNICODE, Glyphs
from console.tui.spans import Line, wrap_spans

# (where, (names of signs in `Glyphs`, what they mean) ...)
LEGEND: Final[Sequence[tuple[str, Sequence[tuple[str, str]]]]] = (
    (
        "A node",
        (
            ("fresh", "fresh: its last sample is younger than 3 s"),
            ("late", "late: 3 to 10 s old"),
            ("lost", "lost: it does not answer; what it runs may go on"),
            ("waiting", "asked, and nothing has come yet"),
            ("worst_low worst_high", "the lowest, the hottest or highest of all nodes"),
            ("outlier", "unlike the other nodes"),
        ),
    ),
    (
        "A stage of a rank",
        (
            ("pending", "not begun"),
            ("active", "in it now"),
            ("done", "done"),
            ("failed", "failed in it"),
            ("skipped", "not for this rank: only the head has it"),
            ("unknown", "not known"),
            ("inferred", "before a sign: concluded, not said by this rank's own log"),
            ("fresh", "in the last column: it serves"),
        ),
    ),
    (
        "A rank, beside its node",
        (
            ("outlier", "behind the other ranks"),
            ("pause", "silent: no line for a minute while it boots"),
            ("lost", "its node does not answer"),
        ),
    ),
    (
        "The guard of a rank's memory",
        (
            ("fresh", "on, with the GiB that it keeps free"),
            ("warn", "off, or it cannot do its work"),
            ("failed", "it fired: the rank was ended to save the node"),
            ("skipped", "off with its container, or not wanted"),
            ("unknown", "not known"),
        ),
    ),
    (
        "A deployment",
        (
            ("active", "starting, booting"),
            ("fresh", "ready: a real request got sane text"),
            ("warn", "degraded, stopping, or partly stopped"),
            ("pause", "stalled: several signs agree that nothing moves"),
            ("failed", "failed, or its answers are not sane"),
            ("waiting", "stopped: every node answered that nothing is left"),
        ),
    ),
    (
        "Findings, alarms, logs",
        (
            ("failed", "it blocks, or it is grave"),
            ("warn", "a warning"),
            ("info", "a note: nothing to do"),
            ("arrow", "what helps; under an alarm: what follows from it"),
            ("follow", "the log follows its newest line"),
            ("pause", "the log stands still where you read"),
            ("cursor", "the cursor"),
            ("mark", "a boot that is marked to compare"),
        ),
    ),
)


def signs(names: str, glyphs: Glyphs) -> str:
    return " ".join(str(getattr(glyphs, name)) for name in names.split())


def legend_lines(width: int, glyphs: Glyphs) -> list[Line]:
    """The signs of the set that is drawn with."""
    out: list[Line] = [((" Signs", "title"),)]
    for where, rows in LEGEND:
        out.append(((f"  {where}", "head"),))
        for names, words in rows:
            out += wrap_spans((f"   {signs(names, glyphs):<7}", "key"), words, "text", width, limit=2)
    return out


def legend_page() -> str:
    """As Markdown tables, for the manual."""
    out = ["## Signs", "", "With `--ascii` each has one of plain ASCII; `?` shows the set in use."]
    for where, rows in LEGEND:
        out += ["", f"**{where}**", "", "| sign | what it means |", "|---|---|"]
        out += [f"| {signs(names, UNICODE)} | {words} |" for names, words in rows]
    return "\n".join(out)
