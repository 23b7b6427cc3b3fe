"""Programs that run on a node. The console never imports them: it reads their text and sends it."""

from __future__ import annotations

from importlib import resources
from typing import Final

_PARTS: Final = ("host", "workers", "engine", "smi", "guard_files", "telemetry")
_GUARD_PARTS: Final = ("host", "guard_engine", "guard_files", "guard")
_FACTS_PARTS: Final = (
    *("facts_ground", "facts_looks", "facts_host", "facts_fabric", "facts_engine", "facts_limits", "facts"),
)
_LAUNCH_PARTS: Final = (*_FACTS_PARTS, "launch_paths", "launch_host", "launch_engines", "launch_facts")
_RELAY_PARTS: Final = ("tar_filter", "relay")
_LOADER: Final = """\
import sys, types
for name in ("console", "console.probe"):
    sys.modules[name] = types.ModuleType(name)
    sys.modules[name].__path__ = []
for name, text in PARTS:
    module = types.ModuleType("console.probe." + name)
    sys.modules[module.__name__] = module
    exec(compile(text, "nightdeck-probe/" + name, "exec"), module.__dict__)
module.main()
"""


def telemetry_program() -> bytes:
    """The telemetry probe as one program of the standard library alone, made of this package's files."""
    return _joined(_PARTS)


def guard_program() -> bytes:
    """The memory guard, made the same way."""
    return _joined(_GUARD_PARTS)


def facts_program() -> bytes:
    """What a plan must know of a node, made the same way."""
    return _joined(_FACTS_PARTS)


def launch_facts_program() -> bytes:
    """All facts of a launch, made the same way."""
    return _joined(_LAUNCH_PARTS)


def relay_program() -> bytes:
    """A link of an image's chain, made the same way."""
    return _joined(_RELAY_PARTS)


def _joined(names: tuple[str, ...]) -> bytes:
    folder = resources.files("console.probe")
    parts = [(name, folder.joinpath(f"{name}.py").read_text("utf-8")) for name in names]
    return f"PARTS = {parts!r}\n{_LOADER}".encode()
