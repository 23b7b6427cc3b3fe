"""Draws docs/console.svg: the console on a lab of eight nodes, in the middle of a boot.

python -m tests.tui.picture [FILE]
"""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
from pathlib import Path

from console.assemble import DiskWorld
from console.cli.parser import build_parser
from console.tui.app import NightdeckApp

OUT = Path(__file__).resolve().parents[2] / "docs" / "console.svg"


async def draw() -> str:
    """The picture as SVG text."""
    world = DiskWorld(build_parser().parse_args(["--cluster", "lab", "--speed", "30", "status"]))
    async with world.hub(watch=False) as hub:
        app = NightdeckApp(hub)
        async with app.run_test(size=(160, 48)) as pilot:
            await hub.settled(timeout=30)
            state = await hub.launch("dsv41-flash-8x-safe")
            moved = asyncio.Event()
            hub.subscribe(moved.set)
            async with asyncio.timeout(60):
                while not any((r.progress or 0) > 0.55 for r in (hub.snapshot().boot or state).ranks):
                    moved.clear()
                    await moved.wait()
            assert app.front is not None
            app.front.show_boot()
            await pilot.pause(1.0)
            return app.export_screenshot(title="nightdeck")


if __name__ == "__main__":
    os.environ.update(
        COLORTERM="truecolor", NIGHTDECK_STATE_DIR=tempfile.mkdtemp(), NIGHTDECK_CONFIG_DIR=tempfile.mkdtemp()
    )
    (Path(sys.argv[1]) if len(sys.argv) > 1 else OUT).write_text(asyncio.run(draw()), encoding="utf-8")
