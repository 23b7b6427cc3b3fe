"""Theme files: each wrong colour is an error of its own, and the rest loads."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from console.base.errors import FileError
from console.base.theme import ThemeColours
from console.base.toml_check import did_you_mean, has_control, named
from console.base.toml_locate import Document, load_document
from console.base.toml_locate import Path as KeyPath
from console.files.places import Places
from console.files.read import read_text
from console.files.theme_defaults import GROUPS, defaults

DEFAULT_THEME: Final = "nightdeck"
_COLOUR: Final = re.compile(r"#(?:[0-9A-Fa-f]{3}|[0-9A-Fa-f]{6})")
_ALLOWED: Final = 'allowed: "#rgb" or "#rrggbb"'


@dataclass(frozen=True, slots=True)
class ThemeShelf:
    """Themes by name, sorted, the default first; errors of all files. `get` falls back to the default."""

    themes: tuple[ThemeColours, ...]
    errors: tuple[FileError, ...]

    def get(self, name: str) -> ThemeColours:
        """The theme of this name, else nightdeck."""
        return next((t for t in self.themes if t.name == name), self.themes[0])


def parse_theme(text: str, file: str) -> tuple[ThemeColours, tuple[FileError, ...]]:
    """A theme, complete, and what was wrong with its file. Raises FileError only for what is not TOML at all."""
    doc = load_document(text, file)
    data = doc.data
    errors: list[FileError] = []
    name = data.get("name", Path(file).stem)
    if not isinstance(name, str) or not name or has_control(name) or len(name) > 40:
        errors.append(_error(doc, ("name",), f"not a name: {named(name)}", "allowed: one line of 1 to 40 characters"))
        name = Path(file).stem
    dark = data.get("dark", True)
    if not isinstance(dark, bool):
        errors.append(_error(doc, ("dark",), f"must be true or false, found {named(dark)}", ""))
        dark = True
    groups = {group: dict(colours) for group, colours in defaults(dark=dark).items()}
    known = [*groups["colours"], *GROUPS, "name", "dark"]
    for key, value in data.items():
        if key in GROUPS:
            if not isinstance(value, Mapping):
                errors.append(_error(doc, (key,), f"must be a table, found {named(value)}", ""))
                continue
            for inner, colour in value.items():
                _take(doc, groups[key], (key, inner), inner, colour, list(groups[key]), errors)
        elif key not in ("name", "dark"):
            _take(doc, groups["colours"], (key,), key, value, known, errors)
    theme = ThemeColours(
        name=name,
        dark=dark,
        colours=groups["colours"],
        status=groups["status"],
        stage=groups["stage"],
        log=groups["log"],
        chart=groups["chart"],
        file=file,
    )
    return theme, tuple(errors)


def load_themes(places: Places) -> ThemeShelf:
    """All themes; a user's wins over a bundled one of its name. Never raises for a bad file."""
    themes: dict[str, ThemeColours] = {}
    errors: list[FileError] = []
    for place in places.theme_folders():
        for path in _files(place.folder, errors):
            try:
                theme, wrong = parse_theme(read_text(path), str(path))
            except FileError as error:
                errors.append(error)
                continue
            themes[theme.name] = theme
            errors.extend(wrong)
    if DEFAULT_THEME not in themes:
        themes[DEFAULT_THEME], _ = parse_theme("", DEFAULT_THEME)
    ordered = sorted(themes.values(), key=lambda t: (t.name != DEFAULT_THEME, t.name))
    return ThemeShelf(tuple(ordered), tuple(errors))


def _files(folder: Path, errors: list[FileError]) -> list[Path]:
    try:
        return sorted(p for p in folder.iterdir() if p.suffix == ".toml" and not p.name.startswith("."))
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        errors.append(FileError(f"cannot be read: {error.strerror or type(error).__name__}", file=str(folder)))
        return []


def _take(
    doc: Document,
    group: dict[str, str],
    path: KeyPath,
    key: str,
    value: Any,
    known: list[str],
    errors: list[FileError],
) -> None:
    if key not in group:
        errors.append(
            _error(
                doc,
                path,
                "unknown table" if isinstance(value, Mapping) else "unknown colour",
                did_you_mean(key, known),
                at_key=True,
            )
        )
    elif not isinstance(value, str) or not _COLOUR.fullmatch(value):
        shown = named(value).removeprefix("the text ")
        errors.append(_error(doc, path, f"not a colour: {shown}", _ALLOWED))
    else:
        digits = value[1:].lower()
        group[key] = "#" + (digits if len(digits) == 6 else "".join(c * 2 for c in digits))


def _error(doc: Document, path: KeyPath, message: str, allowed: str, *, at_key: bool = False) -> FileError:
    """`night.toml: [status] lost: not a colour: "#12"`: the table as the file shows it, the line in the remedy."""
    line, column = doc.place(path, value=not at_key)
    key = f"[{path[0]}] {path[1]}" if len(path) > 1 else str(path[0])
    where = f"line {line}, column {column}"
    error = FileError(message, file=doc.file, key=key, remedy=f"{where}; {allowed}" if allowed else where)
    error.line, error.column = line, column
    return error
