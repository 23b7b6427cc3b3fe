"""Every test runs apart from its developer: own HOME and folders, UTC, no colour wishes, no agent, no proxy."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, is_hypothesis_test, settings

# The same examples every time, so that a failure is of the change at hand; a busy machine is no fault of the values.
BUSY = (HealthCheck.too_slow,)
settings.register_profile("suite", deadline=None, derandomize=True, suppress_health_check=BUSY)
settings.register_profile("fuzz", deadline=None, max_examples=3000, suppress_health_check=BUSY)
FUZZ_FACTOR = 30  # for tests that say themselves how many examples they need
PROFILE = os.environ.get("HYPOTHESIS_PROFILE", "suite")
settings.load_profile(PROFILE)

SCRUBBED = (
    "NO_COLOR",
    "FORCE_COLOR",
    "CLICOLOR",
    "CLICOLOR_FORCE",
    "COLORTERM",
    "COLORFGBG",
    "COLUMNS",
    "LINES",
    "TMUX",
    "TMUX_PANE",
    "STY",
    "EDITOR",
    "VISUAL",
    "PAGER",
    "SSH_AUTH_SOCK",
    "SSH_AGENT_PID",
    "SSH_CONNECTION",
    "SSH_CLIENT",
    "SSH_TTY",
    "DOCKER_HOST",
    "DOCKER_CONTEXT",
    "DOCKER_CONFIG",
    "HF_HOME",
    "HF_TOKEN",
    "XDG_RUNTIME_DIR",
)
PREFIXES = ("TEXTUAL", "NIGHTDECK_", "STUB_", "LC_", "SSH_ASKPASS")
PROXIES = ("http_proxy", "https_proxy", "ftp_proxy", "all_proxy", "no_proxy")
KEPT = ("NIGHTDECK_ENGINE_DIR",)
FOLDERS = {
    "XDG_CONFIG_HOME": ".config",
    "XDG_STATE_HOME": ".local/state",
    "XDG_DATA_HOME": ".local/share",
    "XDG_CACHE_HOME": ".cache",
}


def scrub(home: Path) -> dict[str, str]:
    """The environment that tests see: this process's own, without what a developer's session adds to it."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if name in KEPT
        or not (name in SCRUBBED or name.startswith(PREFIXES) or name.lower() in PROXIES or name.startswith("XDG_"))
    }
    fixed = {"HOME": str(home), "TZ": "UTC", "LANG": "C.UTF-8", "TERM": "xterm-256color", "TEXTUAL_ANIMATIONS": "none"}
    return kept | fixed | {name: str(home / folder) for name, folder in FOLDERS.items()}


def _install(home: Path) -> None:
    for folder in FOLDERS.values():
        (home / folder).mkdir(parents=True, exist_ok=True)
    env = scrub(home)
    os.environ.clear()
    os.environ.update(env)
    time.tzset()


def pytest_configure(config: pytest.Config) -> None:
    """Before any import of the product or of textual: both read the environment as they load."""
    if "NIGHTDECK_ENGINE_DIR" not in os.environ:
        os.environ["NIGHTDECK_ENGINE_DIR"] = str(Path.home() / ".cache" / "nightdeck-engine")
    session_home = tempfile.TemporaryDirectory(prefix="nightdeck-tests-")
    config.add_cleanup(session_home.cleanup)
    _install(Path(session_home.name))


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A HOME of its own for each test; nothing that one test writes there is seen by another."""
    folder = tmp_path / "home"
    for name, value in {"HOME": folder, **{name: folder / part for name, part in FOLDERS.items()}}.items():
        value.mkdir(parents=True, exist_ok=True)
        monkeypatch.setenv(name, str(value))
    yield folder


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if PROFILE != "fuzz":
        return
    usual = settings.get_profile("fuzz").max_examples
    for item in items:
        test = getattr(item, "function", None)
        mine = getattr(test, "_hypothesis_internal_use_settings", None) if is_hypothesis_test(test) else None
        if mine is not None and mine.max_examples != usual:
            more = settings(mine, max_examples=mine.max_examples * FUZZ_FACTOR, derandomize=False, database=None)
            test._hypothesis_internal_use_settings = more  # type: ignore[union-attr]
