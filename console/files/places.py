"""Where files live: configuration, state, and the folders that recipes and themes are looked for in."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import platformdirs

APP: Final = "nightdeck"
CONFIG_ENV: Final = "NIGHTDECK_CONFIG_DIR"
STATE_ENV: Final = "NIGHTDECK_STATE_DIR"
BUNDLED: Final = "bundled"


@dataclass(frozen=True, slots=True)
class Place:
    """A folder and what to call it (`--recipes`, `working folder`, `configuration`, `bundled`)."""

    label: str
    folder: Path


@dataclass(frozen=True, slots=True)
class Places:
    """Folders by purpose; none of them need exist. `work` is the working folder."""

    config: Path
    state: Path
    work: Path
    bundled: Path

    @property
    def cluster_file(self) -> Path:
        return self.config / "cluster.toml"

    @property
    def settings_file(self) -> Path:
        return self.config / "settings.toml"

    @property
    def boots(self) -> Path:
        return self.state / "boots"

    def recipe_folders(self, extra: Path | None = None) -> tuple[Place, ...]:
        """In search order. A folder reached by two ways counts once, and as bundled where it is that."""
        found = [] if extra is None else [Place("--recipes", extra)]
        found += [
            Place("working folder", self.work / "recipes"),
            Place("configuration", self.config / "recipes"),
            Place(BUNDLED, self.bundled / "recipes"),
        ]
        return _once(found)

    def theme_folders(self) -> tuple[Place, ...]:
        """Later ones win: a user's theme may take the place of a bundled one."""
        return (Place(BUNDLED, self.bundled / "themes"), Place("configuration", self.config / "themes"))

    @property
    def image_folders(self) -> tuple[Path, ...]:
        """Where `docker_image_dir` is looked for: `images/` beside each `recipes/`."""
        return tuple(place.folder.parent / "images" for place in self.recipe_folders())


def find_places(environ: Mapping[str, str], *, work: Path) -> Places:
    """Places by the platform's habit; NIGHTDECK_CONFIG_DIR and NIGHTDECK_STATE_DIR come first."""
    config, state = environ.get(CONFIG_ENV), environ.get(STATE_ENV)
    return Places(
        config=Path(config).expanduser() if config else platformdirs.user_config_path(APP),
        state=Path(state).expanduser() if state else platformdirs.user_state_path(APP),
        work=work,
        bundled=bundled_folder(),
    )


def bundled_folder() -> Path:
    """The folder that holds `recipes/` and `themes/`: inside the package when installed, else the checkout's top."""
    package = Path(__file__).resolve().parent.parent
    shipped = package / "_shipped"
    return shipped if shipped.is_dir() else package.parent


def _once(places: list[Place]) -> tuple[Place, ...]:
    seen: dict[str, Place] = {}
    for place in places:
        real = os.path.realpath(place.folder)  # Path.resolve raises for a link that points to itself
        if real not in seen or place.label == BUNDLED:
            # the order of the first way in, the name of the bundled one
            seen[real] = place
    return tuple(seen.values())
