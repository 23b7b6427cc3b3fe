"""`python -m console.tui`: the keys as a page of the manual, on standard output."""

from __future__ import annotations

import sys

from console.tui.actions import docs_table
from console.tui.legend import legend_page

HEAD = (
    "# Keys\n\nAll can be changed in `[keys]` of the settings, by their id. "
    "Made by `python -m console.tui > docs/keys.md`.\n\n"
)
EVERYWHERE = (
    "While a log is searched: `n` and `N` go on, `enter` keeps the search, `esc` takes it off and goes back to where\n"
    "it began. In the alarms `enter` unfolds what follows from one.\n"
)


def page() -> str:
    return f"{HEAD}{docs_table()}\n\n{EVERYWHERE}\n{legend_page()}\n"


if __name__ == "__main__":
    sys.stdout.write(page())
