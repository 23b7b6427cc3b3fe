"""`python -m console`, and the command `nightdeck`."""

from __future__ import annotations

import gc
import os
import sys


def main() -> None:
    gc.disable()  # what is imported stays: looking for garbage in it costs a tenth of the start
    # Looking for plugins of pydantic reads the description of every installed package; none is for us.
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    from console.assemble import main as run

    gc.freeze()
    gc.enable()
    sys.exit(run())


if __name__ == "__main__":
    main()
