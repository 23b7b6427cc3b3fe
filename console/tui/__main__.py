"""`python -m console.tui`: the keys as a page of the manual, on standard output."""

from __future__ import annotations

import sys

from console.tui.actions import docs_table

HEAD = (
    "# Keys\n\nAll can be changed in `[keys]` of the settings, by their id. "
    "Made by `python -m console.tui > docs/keys.md`.\n\n"
)


def page() -> str:
    return f"{HEAD}{docs_table()}\n"


if __name__ == "__main__":
    sys.stdout.write(page())
