"""What a container sees of its node's disk, and which folders have to be there before it starts."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from console.base.absent import NOT_SAMPLED, Absent, known
from console.base.errors import UsageError
from console.base.findings import Finding, Severity
from console.cluster.facts import NodeFacts
from console.cluster.model import Node
from console.plan.codes import finding
from console.plan.effective import is_path
from console.recipe.model import Recipe

DEFAULT_HF_HOME: Final = "/root/.cache/huggingface"  # where the hub library looks when the image's user is root
DEFAULT_HF_CACHE: Final = "~/.cache/huggingface"
_FILE_NAME: Final = re.compile(r"[^/]\.[A-Za-z][A-Za-z0-9]{0,6}$")


@dataclass(frozen=True, slots=True)
class Bind:
    """One bind mount as it stands on the command line; make: a missing source folder is made as the node's user."""

    source: str
    target: str
    read_only: bool = False
    make: bool = False

    def words(self) -> tuple[str, str]:
        """`--mount` and not `-v`: a missing source is refused instead of made as root."""
        tail = ",readonly" if self.read_only else ""
        return "--mount", f"type=bind,src={self.source},dst={self.target}{tail}"


def binds_of(
    recipe: Recipe, node: Node, facts: NodeFacts | Absent, env: Mapping[str, str]
) -> tuple[list[Bind], list[Finding]]:
    """The mounts of one rank: the model's folder or the hub cache, then the recipe's own.

    A hub id gets the node's hf_cache (default ~/.cache/huggingface) where the image's HF_HOME is; a model that is a
    path is mounted read-only at the same path. A cache in the user's home is made as that user, as the hub library
    would; a cache elsewhere (a NAS) and a model's path are not: an empty folder in place of a model is worse than a
    refusal. Nor are sources of read-only mounts and of files. Raises UsageError for paths that a mount
    cannot hold."""
    found: list[Finding] = []
    home = facts.home if not isinstance(facts, Absent) else facts
    targets = [_container(m.container, recipe) for m in recipe.mounts]
    binds: list[Bind] = []

    def host(path: str, what: str) -> str:
        expanded = _expand(_host(path, what, recipe), home)
        if expanded.startswith("~"):
            reason = home.reason if isinstance(home, Absent) else f"home is {home!r}"
            found.append(
                finding(
                    "home-unknown",
                    f"{node.name}: {what} {path} begins with ~ and the user's home is not known",
                    node=node.name,
                    observed=reason,
                    severity=Severity.INFO if facts == NOT_SAMPLED else None,  # nobody wanted to know
                )
            )
        return expanded

    if recipe.model.startswith("~"):
        raise UsageError(
            f"model {recipe.model!r}: a folder must be named in full, since all ranks are told the same path",
            where=recipe.file,
        )
    if is_path(recipe.model):
        if not any(_covers(target, recipe.model) for target in targets):
            path = host(recipe.model, "model")
            binds.append(Bind(path, path, read_only=True))
    else:
        hub = _container(env.get("HF_HOME") or DEFAULT_HF_HOME, recipe)
        if not any(_covers(target, hub) for target in targets):
            cache = node.hf_cache or DEFAULT_HF_CACHE
            binds.append(Bind(host(cache, "hf_cache"), hub, make=cache.startswith("~/")))
    for mount, target in zip(recipe.mounts, targets, strict=True):
        make = not mount.read_only and _FILE_NAME.search(mount.host) is None
        binds.append(Bind(host(mount.host, "mount"), target, mount.read_only, make))
    return binds, found


def _expand(path: str, home: str | Absent) -> str:
    if path != "~" and not path.startswith("~/"):
        return path
    if not known(home) or not home.startswith("/") or _unfit(home):
        return path
    return posixpath.normpath(home + path[1:])


def _host(path: str, what: str, recipe: Recipe) -> str:
    if path != "~" and not path.startswith(("/", "~/")):
        raise UsageError(f"{what} {path!r} must be an absolute path on the node, or begin with ~/", where=recipe.file)
    _check(path, what, recipe)
    return path if path == "~" else posixpath.normpath(path)


def _container(path: str, recipe: Recipe) -> str:
    if not path.startswith("/"):
        raise UsageError(f"mount target {path!r} must be an absolute path in the container", where=recipe.file)
    _check(path, "mount target", recipe)
    return posixpath.normpath(path)


def _check(path: str, what: str, recipe: Recipe) -> None:
    if _unfit(path):
        raise UsageError(
            f"{what} {path!r} holds a comma, a quote or a control character, which a mount cannot carry",
            where=recipe.file,
            remedy="rename the folder, or mount its parent",
        )


def _unfit(path: str) -> bool:
    return any(c in ',"' or ord(c) < 32 or ord(c) == 127 for c in path)


def _covers(target: str, path: str) -> bool:
    return path == target or path.startswith(target.rstrip("/") + "/")
