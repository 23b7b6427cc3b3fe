"""What a theme file may leave out: one default for every colour, by dark or light."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

Group = Mapping[str, str]

# Dark: greys from the grey ramp of 256 colours, the others from its 6x6x6 cube, so that nothing shifts over SSH.
DARK: Final[Mapping[str, Group]] = {
    "colours": {
        "primary": "#5fafff",
        "secondary": "#87afff",
        "accent": "#5fd7d7",
        "warning": "#ffaf5f",
        "error": "#ff5f5f",
        "success": "#5fd787",
        "foreground": "#d0d0d0",
        "background": "#121212",
        "surface": "#1c1c1c",
        "panel": "#262626",
        "dim": "#949494",
        "line": "#444444",
    },
    "status": {
        "fresh": "#5fd787",
        "late": "#ffaf5f",
        "lost": "#ff5f5f",
        "ok": "#5fd787",
        "warn": "#ffaf5f",
        "bad": "#ff5f5f",
        "idle": "#949494",
    },
    "stage": {
        "pending": "#949494",
        "active": "#5fd7ff",
        "done": "#5fd787",
        "failed": "#ff5f5f",
        "inferred": "#a8a8a8",
        "laggard": "#ffaf5f",
    },
    "log": {
        "error": "#ff5f5f",
        "warning": "#ffaf5f",
        "info": "#bcbcbc",
        "debug": "#949494",
        "time": "#949494",
        "rank": "#5fafff",
        "progress": "#5fd7ff",
        "search": "#ffd75f",
    },
    "chart": {
        "memory": "#5fafff",
        "shmem": "#d787ff",
        "gpu": "#5fd787",
        "power": "#ffd75f",
        "network": "#5fd7d7",
        "temperature": "#ffaf5f",
        "grid": "#444444",
    },
}
LIGHT: Final[Mapping[str, Group]] = {
    "colours": {
        "primary": "#005faf",
        "secondary": "#5f5faf",
        "accent": "#005f5f",
        "warning": "#875f00",
        "error": "#af0000",
        "success": "#005f00",
        "foreground": "#262626",
        "background": "#ffffff",
        "surface": "#f5f5f5",
        "panel": "#eeeeee",
        "dim": "#626262",
        "line": "#b2b2b2",
    },
    "status": {
        "fresh": "#005f00",
        "late": "#875f00",
        "lost": "#af0000",
        "ok": "#005f00",
        "warn": "#875f00",
        "bad": "#af0000",
        "idle": "#626262",
    },
    "stage": {
        "pending": "#626262",
        "active": "#005faf",
        "done": "#005f00",
        "failed": "#af0000",
        "inferred": "#585858",
        "laggard": "#875f00",
    },
    "log": {
        "error": "#af0000",
        "warning": "#875f00",
        "info": "#444444",
        "debug": "#626262",
        "time": "#626262",
        "rank": "#005faf",
        "progress": "#005f87",
        "search": "#87005f",
    },
    "chart": {
        "memory": "#005faf",
        "shmem": "#8700af",
        "gpu": "#005f00",
        "power": "#875f00",
        "network": "#005f5f",
        "temperature": "#a04b00",
        "grid": "#b2b2b2",
    },
}
GROUPS: Final = ("status", "stage", "log", "chart")


def defaults(*, dark: bool) -> Mapping[str, Group]:
    """All colours of a theme that says nothing of its own."""
    return DARK if dark else LIGHT
