"""The preflight of folders: mount sources and the model's files on every node."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final

from console.base.absent import Absent
from console.base.findings import Finding, Severity
from console.base.units import size_text
from console.cluster.launch_facts import LaunchFacts, ModelFact
from console.cluster.model import Cluster
from console.plan.codes import finding
from console.plan.launch_ask import environment, is_offline, raw_binds
from console.plan.mounts import DEFAULT_HF_HOME, Bind
from console.recipe.model import Recipe

_FILE_NAME: Final = re.compile(r"[^/]\.[A-Za-z][A-Za-z0-9]{0,6}$")


def mount_findings(recipe: Recipe, cluster: Cluster, present: Mapping[str, LaunchFacts]) -> Iterator[Finding]:
    """Findings of all nodes; messages are the same on all, so that a face can fold them."""
    for name, fact in present.items():
        node = cluster.node(name)
        if node is None or isinstance(fact.mounts, Absent):
            continue
        made: list[str] = []
        home = environment(recipe, cluster).get("HF_HOME") or DEFAULT_HF_HOME
        for bind in raw_binds(recipe, cluster, node):
            folder = bind.make or bind.target in (home, recipe.model)
            yield from _mount(name, bind, fact, made, folder=folder)
        if made:
            yield finding(
                "folder-made",
                f"{len(made)} folder{'s' if len(made) > 1 else ''} will be made: {', '.join(made)}",
                node=name,
                observed="missing",
            )
    for name, fact in present.items():
        for model in () if isinstance(fact.models, Absent) else fact.models:
            yield from _model(name, model, offline=is_offline(recipe, cluster) or model.name.startswith("/"))
    yield from _differing(present)


def _mount(name: str, bind: Bind, fact: LaunchFacts, made: list[str], *, folder: bool) -> Iterator[Finding]:
    there = {} if isinstance(fact.mounts, Absent) else fact.mounts
    path = there.get(bind.source)
    if path is None:
        return
    if path.kind == "hung":
        yield finding("mount-hung", f"{bind.source} {path.why}", node=name, observed="no answer", expected="an answer")
    elif path.kind == "error":
        yield finding("mount-unreadable", f"{bind.source}: {path.why}", node=name, observed=path.why)
    elif path.kind == "missing" and bind.make:
        made.append(bind.source)
        if not path.writable:
            yield finding(
                "mount-not-writable",
                f"{bind.source} is missing, and its parent takes no new folder",
                node=name,
                observed="not writable",
                expected="writable",
            )
    elif path.kind == "missing":
        yield finding(
            "mount-missing",
            f"{bind.source}, mounted at {bind.target}, is missing",
            node=name,
            observed="missing",
            expected="a folder or file",
        )
    elif path.kind == "other" or (path.kind == "file" and folder):
        what = "file" if path.kind == "file" else "device or socket"
        yield finding(
            "mount-kind",
            f"{bind.source} is a {what}, mounted at {bind.target}",
            node=name,
            observed=path.kind,
            expected="a folder",
        )
    elif path.kind == "dir" and _FILE_NAME.search(bind.target) and _FILE_NAME.search(bind.source):
        # A name with an extension is a file's by all appearances; a folder may have one too.
        yield finding(
            "mount-kind",
            f"{bind.source} is a folder, mounted at {bind.target}, which looks like a file",
            node=name,
            observed="dir",
            expected="a file",
            severity=Severity.WARN,
        )


def _model(name: str, model: ModelFact, *, offline: bool) -> Iterator[Finding]:
    if model.state == "hung":
        yield finding("model-hung", f"{model.name}: {model.folder} {model.why}", node=name, observed="no answer")
    elif model.state in ("missing", "error"):
        code = "model-missing" if offline else "model-download"
        text = model.why if model.state == "error" else "not on the node"
        # An image can bring its own checkpoint, which no look at the node's cache can rule out: for a hub id this is a
        # warning. A path on the node is mounted, and without it no container starts.
        hub = not model.name.startswith("/")
        yield finding(
            code,
            f"{model.name}: {text}{'; only an image that holds it can serve it' if hub and offline else ''}",
            node=name,
            observed=model.why or model.state,
            expected="the model's files",
            severity=Severity.WARN if hub and offline else None,
        )
    if model.missing:
        yield finding(
            "model-incomplete",
            f"{model.name}: {_some(model.missing)} missing",
            node=name,
            observed=f"{len(model.missing)} missing in {model.folder}",
            expected="all files",
            severity=None if offline else Severity.WARN,
        )
    if model.damaged:
        yield finding(
            "model-truncated",
            f"{model.name}: {_some(model.damaged)}",
            node=name,
            observed=f"{len(model.damaged)} damaged in {model.folder}",
            expected="whole files",
        )


def _some(words: tuple[str, ...], most: int = 4) -> str:
    return ", ".join(words[:most]) + (f" and {len(words) - most} more" if len(words) > most else "")


def _differing(present: Mapping[str, LaunchFacts]) -> Iterator[Finding]:
    """Only whole models are compared: what is not whole has its own finding."""
    groups: dict[tuple[str, str, int], list[str]] = {}
    for name, fact in present.items():
        for model in () if isinstance(fact.models, Absent) else fact.models:
            if model.state == "whole":
                groups.setdefault((model.name, model.revision, model.size_bytes), []).append(name)
    if len({key[0] for key in groups}) == len(groups):
        return
    ordered = sorted(groups.items(), key=lambda item: -len(item[1]))
    texts = [f"{key[1][:12] or 'files'} of {size_text(key[2])} on {', '.join(names)}" for key, names in ordered]
    yield finding(
        "model-differs",
        f"{ordered[0][0][0]} differs: {'; '.join(texts)}",
        node=ordered[1][1][0] if len(ordered) == 2 and len(ordered[1][1]) == 1 else None,
        observed=texts[1],
        expected=texts[0],
    )
