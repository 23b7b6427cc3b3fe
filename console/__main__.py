"""`python -m console`, and the command `nightdeck`."""

from __future__ import annotations

import sys


def main() -> None:
    from console.assemble import main as run

    sys.exit(run())


if __name__ == "__main__":
    main()
