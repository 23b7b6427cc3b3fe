"""A checked theme file as a Textual theme, with the default of every colour in one place."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from textual.theme import Theme

from console.base.theme import ThemeColours

# Greys of low saturation fall on the grey ramp of 256 colours, the others are colours of the 6x6x6 cube itself,
# and all keep their hue in 16: the console looks the same over SSH without COLORTERM.
COLOURS: Final[Mapping[str, str]] = {
    "primary": "#5fafff",
    "secondary": "#87afff",
    "accent": "#5fd7d7",
    "warning": "#ffaf5f",
    "error": "#ff5f5f",
    "success": "#5fd787",
    "foreground": "#d0d4d8",
    "background": "#0f1113",
    "surface": "#15181a",
    "panel": "#1f2326",
}
STATUS: Final[Mapping[str, str]] = {
    "fresh": "#5fd787",
    "late": "#ffaf5f",
    "lost": "#ff5f5f",
    "ok": "#5fd787",
    "warn": "#ffaf5f",
    "bad": "#ff5f5f",
    "idle": "#8a9096",
}
STAGE: Final[Mapping[str, str]] = {
    "pending": "#6c7278",
    "active": "#5fd7ff",
    "done": "#5fd787",
    "failed": "#ff5f5f",
    "inferred": "#8a9096",
    "laggard": "#ffaf5f",
}
LOG: Final[Mapping[str, str]] = {
    "error": "#ff5f5f",
    "warning": "#ffaf5f",
    "info": "#8a9096",
    "debug": "#6c7278",
    "time": "#6c7278",
    "rank": "#5fafff",
    "progress": "#5fd7ff",
    "search": "#ffd75f",
}
CHART: Final[Mapping[str, str]] = {
    "memory": "#5fafff",
    "shmem": "#d75fff",
    "gpu": "#5fd787",
    "power": "#ffd75f",
    "network": "#5fd7d7",
    "temperature": "#ffaf5f",
    "grid": "#3a4045",
}
# Derived from the theme's own colours where a theme file has no say.
DIM_DARK: Final = "#8a9096"
DIM_LIGHT: Final = "#5c636a"
LINE_DARK: Final = "#3a4045"
LINE_LIGHT: Final = "#b8bec4"
GROUPS: Final[Mapping[str, Mapping[str, str]]] = {"node": STATUS, "stage": STAGE, "log": LOG, "chart": CHART}

NIGHTDECK: Final = ThemeColours(
    name="nightdeck", dark=True, colours=COLOURS, status=STATUS, stage=STAGE, log=LOG, chart=CHART
)


def variables_of(theme: ThemeColours) -> dict[str, str]:
    """Our own variables (`node-fresh`, `stage-active`, `log-error`, `chart-memory`, ...), every one present."""
    given: Mapping[str, Mapping[str, str]] = {
        "node": theme.status,
        "stage": theme.stage,
        "log": theme.log,
        "chart": theme.chart,
    }
    out = {
        f"{group}-{key}": given[group].get(key, default)
        for group, defaults in GROUPS.items()
        for key, default in defaults.items()
    }
    out["dim"] = theme.colours.get("dim", DIM_DARK if theme.dark else DIM_LIGHT)
    out["line"] = theme.colours.get("line", LINE_DARK if theme.dark else LINE_LIGHT)
    return out


def textual_theme(theme: ThemeColours) -> Theme:
    """The theme for `App.register_theme`; colours that it lacks take the defaults of nightdeck."""
    colours = {key: theme.colours.get(key, default) for key, default in COLOURS.items()}
    variables = variables_of(theme)
    variables |= {
        "border": variables["line"],
        "border-blurred": variables["line"],
        "block-cursor-background": colours["primary"],
        "block-cursor-foreground": colours["background"],
        "input-selection-background": colours["primary"] + " 35%",
        "scrollbar": variables["line"],
        "scrollbar-hover": variables["dim"],
        "scrollbar-active": colours["primary"],
        "scrollbar-background": colours["background"],
        "scrollbar-background-hover": colours["background"],
        "scrollbar-background-active": colours["background"],
        "scrollbar-corner-color": colours["background"],
    }
    return Theme(
        name=theme.name,
        dark=theme.dark,
        variables=variables,
        primary=colours["primary"],
        secondary=colours["secondary"],
        accent=colours["accent"],
        warning=colours["warning"],
        error=colours["error"],
        success=colours["success"],
        foreground=colours["foreground"],
        background=colours["background"],
        surface=colours["surface"],
        panel=colours["panel"],
    )


def fallback_variables() -> dict[str, str]:
    """Defaults of our variables for a theme that is not ours (Textual's own)."""
    return variables_of(NIGHTDECK)
