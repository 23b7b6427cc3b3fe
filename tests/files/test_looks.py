"""Themes and settings: what is wrong is said, the rest loads; and every bundled theme can be read."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from console.base.errors import FileError
from console.base.theme import ThemeColours
from console.files.places import Places, bundled_folder
from console.files.settings import Settings, load_settings, parse_settings
from console.files.theme_defaults import DARK, GROUPS, LIGHT
from console.files.themes import load_themes, parse_theme

BROKEN = Path(__file__).parent / "broken"
THEMES = sorted((Path(__file__).parent.parent.parent / "themes").glob("*.toml"))
INK = ("primary", "secondary", "accent", "warning", "error", "success", "foreground", "dim")
# Every key that the value ThemeColours promises.
KEYS = {
    "status": "fresh late lost ok warn bad idle",
    "stage": "pending active done failed inferred laggard",
    "log": "error warning info debug time rank progress search",
    "chart": "memory shmem gpu power network temperature grid",
}


def luminance(colour: str) -> float:
    """Relative luminance of sRGB, as WCAG 2.1 defines it."""
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [p / 12.92 if p <= 0.03928 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(a: str, b: str) -> float:
    light, dark = sorted((luminance(a), luminance(b)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def load(path: Path) -> ThemeColours:
    theme, errors = parse_theme(path.read_text(), path.name)
    assert errors == ()
    return theme


def inks(theme: ThemeColours) -> dict[str, str]:
    """All colours that text is written in; lines and grids are no text."""
    out = {key: theme.colours[key] for key in INK}
    for group in GROUPS:
        out |= {f"{group}.{k}": v for k, v in getattr(theme, group).items() if k != "grid"}
    return out


def test_the_five_themes() -> None:
    assert [p.stem for p in THEMES] == ["colour-blind-safe", "high-contrast", "light", "night", "nightdeck"]
    assert all(load(p).name == p.stem for p in THEMES)


@pytest.mark.parametrize("path", THEMES, ids=lambda p: p.stem)
def test_text_stands_out_from_its_ground(path: Path) -> None:
    theme = load(path)
    least = 7.0 if theme.name == "high-contrast" else 4.5
    weak = {
        f"{key} on {ground}": round(contrast(ink, theme.colours[ground]), 2)
        for key, ink in inks(theme).items()
        for ground in ("background", "surface", "panel")
        if contrast(ink, theme.colours[ground]) < least
    }
    assert weak == {}


@pytest.mark.parametrize("path", THEMES, ids=lambda p: p.stem)
def test_every_promised_colour_is_there(path: Path) -> None:
    theme = load(path)
    for group, keys in KEYS.items():
        assert set(getattr(theme, group)) == set(keys.split())


def test_defaults_are_complete_and_alike() -> None:
    for table in (DARK, LIGHT):
        assert {g: set(table[g]) for g in GROUPS} == {g: set(k.split()) for g, k in KEYS.items()}
    assert set(DARK["colours"]) == set(LIGHT["colours"])


def test_night_is_of_low_luminance() -> None:
    night, day = load(THEMES[3]), load(THEMES[4])
    assert max(luminance(c) for c in inks(night).values()) < 0.35
    assert luminance(night.colours["background"]) == 0
    assert luminance(night.colours["foreground"]) < luminance(day.colours["foreground"])


def test_nightdeck_uses_only_colours_of_the_256() -> None:
    cube = {f"{v:02x}" for v in (0, 95, 135, 175, 215, 255)}
    greys = {f"#{8 + 10 * i:02x}" + f"{8 + 10 * i:02x}" * 2 for i in range(24)}
    for colour in [*inks(load(THEMES[4])).values(), *load(THEMES[4]).colours.values()]:
        assert colour in greys or {colour[1:3], colour[3:5], colour[5:7]} <= cube, colour


def deutan(colour: str) -> tuple[float, float, float]:
    """Linear RGB as seen without green cones (Viénot, Brettel and Mollon 1999)."""
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    r, g, b = (p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts)
    return 0.29275 * r + 0.70725 * g, 0.29275 * r + 0.70725 * g, -0.02234 * r + 0.02234 * g + b


def test_good_doubt_and_bad_stay_apart_without_green_cones() -> None:
    theme = load(THEMES[0])
    seen = [deutan(theme.status[key]) for key in ("ok", "warn", "bad")]
    for i, a in enumerate(seen):
        for b in seen[i + 1 :]:
            assert sum((x - y) ** 2 for x, y in zip(a, b, strict=True)) ** 0.5 > 0.25


@pytest.mark.parametrize("name", ["night", "shapes"])
def test_broken_theme_says_each_wrong_thing(name: str) -> None:
    path = BROKEN / f"{name}.toml"
    _, errors = parse_theme(path.read_text(), path.name)
    assert [str(e) for e in errors] == path.with_suffix(".expected").read_text().splitlines()


def test_the_rest_of_a_broken_theme_loads() -> None:
    theme, errors = parse_theme((BROKEN / "night.toml").read_text(), "night.toml")
    wrong = next(e for e in errors if e.key == "[status] lost")
    assert str(wrong).startswith('night.toml: [status] lost: not a colour: "#12"')
    assert (wrong.line, wrong.column) == (7, 8)
    assert theme.stage["done"] == "#00ff00", "short colours are written out"
    assert theme.status["lost"] == DARK["status"]["lost"]


def test_a_theme_that_is_not_toml() -> None:
    with pytest.raises(FileError, match=r"syntax\.toml:1:10: not TOML"):
        parse_theme((BROKEN / "syntax.toml").read_text(), "syntax.toml")


def test_users_themes_win_and_bad_ones_hide_none(tmp_path: Path) -> None:
    places = Places(tmp_path / "c", tmp_path / "s", tmp_path, bundled_folder())
    own = tmp_path / "c" / "themes"
    own.mkdir(parents=True)
    (own / "light.toml").write_text('name = "light"\ndark = false\nprimary = "#112233"\n')
    (own / "bad.toml").write_text("name = ")
    (own / "half.toml").write_text('[log]\nerror = "red"\n')
    shelf = load_themes(places)
    assert shelf.themes[0].name == "nightdeck"
    assert len(shelf.themes) == len(THEMES) + 1
    assert shelf.get("light").colours["primary"] == "#112233"
    assert shelf.get("half").log["error"] == DARK["log"]["error"]
    assert shelf.get("no such").name == "nightdeck"
    assert [Path(e.file).name for e in shelf.errors] == ["bad.toml", "half.toml"]


def test_without_any_theme_file_there_is_still_nightdeck(tmp_path: Path) -> None:
    shelf = load_themes(Places(tmp_path, tmp_path, tmp_path, tmp_path))
    assert [t.name for t in shelf.themes] == ["nightdeck"]
    assert shelf.themes[0].colours == DARK["colours"]


def test_settings() -> None:
    text = 'theme = "night"\ncolor = "256"\nbell = false\npoll_interval_s = 2\nkeep_boots = 0\n'
    text += '[keys]\nlaunch = "L, ctrl+l"\n'
    read = parse_settings(text, "settings.toml")
    assert read.settings == Settings(
        "night", "256", bell=False, poll_interval_s=2.0, keep_boots=0, keys={"launch": "L,ctrl+l"}
    )
    assert (read.errors, read.findings) == ((), ())


def test_a_wrong_setting_takes_its_default_and_is_said() -> None:
    text = 'theme = "night"\ncolor = "265"\npoll_interval_s = 0.1\nbell = "no"\nkeep_boot = 3\n'
    text += '[keys]\nstop = 1\nplan = "p"\n'
    read = parse_settings(text, "settings.toml")
    assert read.settings == Settings("night", keys={"plan": "p"})
    assert [str(e) for e in read.errors] == [
        'settings.toml:2:9: color: must be "auto", "truecolor", "256", "16" or "none", found the text "265"',
        "settings.toml:3:19: poll_interval_s: must be at least 0.25, found the number 0.1",
        'settings.toml:4:8: bell: must be true or false, found the text "no"',
        'settings.toml:7:8: keys.stop: must be a key as a text, such as "l" or "ctrl+l", found the number 1',
    ]
    assert [f.remedy for f in read.findings] == ['did you mean "keep_boots"?']


def test_settings_that_cannot_be_read_are_defaults_and_an_error(tmp_path: Path) -> None:
    places = Places(tmp_path, tmp_path, tmp_path, tmp_path)
    assert load_settings(places).settings == Settings()
    places.settings_file.write_text("theme = \n")
    read = load_settings(places)
    assert read.settings == Settings()
    assert [e.line for e in read.errors] == [1]


VALUES = st.sampled_from(
    ['"x"', "1", "-1", "nan", "true", "[]", "{}", '{a = "b", c = 1}', '""', '"#123456"', "0xFFFFFFFFFFFFFFFFFF"]
)
NAMES = st.sampled_from(
    ["theme", "color", "keys", "poll_interval_s", "keep_boots", "name", "dark", "status", "log", "primary", "x"]
)


@settings(deadline=None)
@given(st.dictionaries(NAMES, VALUES))
def test_any_values_give_settings_and_a_theme(table: dict[str, str]) -> None:
    text = "".join(f"{k} = {v}\n" for k, v in table.items())
    assert parse_settings(text, "s").settings.log_lines == 200_000
    theme, _ = parse_theme(text, "t.toml")
    assert set(theme.status) == set(KEYS["status"].split())
