"""What a type cannot say: image names, paths, patterns, ports that collide, parallel sizes that do not fit."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping
from typing import Any, Final

from console.base.errors import FileError
from console.base.toml_check import did_you_mean, has_control, named, plain
from console.base.toml_locate import Document, Path
from console.recipe.schema import ENGINES

# The grammar of image references of the distribution project (reference.go): domain, path, tag, digest.
_DOMAIN: Final = r"(?:[A-Za-z0-9](?:[A-Za-z0-9\-.]*[A-Za-z0-9])?|\[[0-9A-Fa-f:]+\])(?::[0-9]+)?"
_PART: Final = r"[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*"
_IMAGE: Final = re.compile(
    rf"(?:{_DOMAIN}/)?{_PART}(?:/{_PART})*(?::[A-Za-z0-9_][A-Za-z0-9_.\-]{{0,127}})?(?:@[a-z0-9+.\-_]+:[0-9A-Fa-f]{{32,}})?"
)
_SIZE: Final = re.compile(r"[0-9]+(?:\.[0-9]+)?\s?(?:[kKmMgGtTpP]?[iI]?[bB]?)")  # docker's units.RAMInBytes
_GPUS: Final = re.compile(r"[A-Za-z0-9_=\",.:\-]+")


def value_errors(doc: Document) -> list[FileError]:
    """All that is wrong with single values. Values of a wrong type are passed over: their type is another error."""
    data = doc.data
    errors: list[FileError] = []

    def text(key: str) -> str | None:
        value = data.get(key)
        return value if isinstance(value, str) and value else None

    engine = text("engine")
    if engine is not None and engine not in ENGINES:
        known = " and ".join(f'"{e}"' for e in ENGINES)
        message = f"no engine of this name is known, found {named(engine)}; known: {known}"
        errors.append(doc.error(message, ("engine",), remedy=did_you_mean(engine, ENGINES)))
    image = text("docker_image")
    if image is not None and (len(image) > 512 or not _IMAGE.fullmatch(image)):
        allowed = 'allowed: name[:tag], as in "dsv41-flash:local", in lower case before the tag'
        errors.append(doc.error(f"not an image reference, found {named(image)}; {allowed}", ("docker_image",)))
    for key, check in (("model", model_fault), ("docker_image_dir", image_dir_fault), ("name", name_fault)):
        value = text(key)
        if value is not None and (fault := check(value)):
            errors.append(doc.error(f"{fault}, found {named(value)}", (key,)))
    size = text("shm_size")
    if size is not None and not _SIZE.fullmatch(size):
        allowed = 'allowed: a number and a unit, as in "32gb"'
        errors.append(doc.error(f"not a size, found {named(size)}; {allowed}", ("shm_size",)))
    gpus = text("gpus")
    if gpus is not None and (gpus.startswith("-") or not _GPUS.fullmatch(gpus)):
        allowed = 'allowed: "all", "none", a count, or docker\'s own value such as "device=0"'
        errors.append(doc.error(f"not a choice of GPUs, found {named(gpus)}; {allowed}", ("gpus",)))
    return [*errors, *_mount_errors(doc), *_smoke_errors(doc), *_node_errors(doc)]


def name_fault(value: str) -> str | None:
    """What is wrong with a recipe's title, or None."""
    return "must be one line without control codes" if has_control(value) or not value.strip() else None


def image_dir_fault(value: str) -> str | None:
    """What is wrong with `docker_image_dir`, or None: it names a folder under `images/`."""
    if has_control(value) or value.startswith(("/", "~", "-")) or ".." in value.split("/"):
        return "must be a folder under images/, without a leading / and without .."
    return None


def model_fault(value: str) -> str | None:
    """What is wrong with `model`, or None: a hub id, a reference with a scheme, or an absolute path on the node."""
    if has_control(value) or value != value.strip():
        return "must hold no control codes and no blanks around it"
    if value.startswith("/"):
        return path_fault(value)
    if value.startswith(("-", "~", ".")) or " " in value:
        return "must be a hub id or an absolute path on the node"
    return None


def path_fault(value: str) -> str | None:
    """What is wrong with a path that docker is to mount, or None."""
    if has_control(value):
        return "must hold no control codes"
    if ":" in value or "," in value:
        return "must hold no : and no , (they would end the path in docker's syntax)"
    return None


def _mount_errors(doc: Document) -> list[FileError]:
    errors: list[FileError] = []
    seen: dict[str, int] = {}
    mounts = doc.data.get("extra_mounts")
    for i, mount in enumerate(mounts if isinstance(mounts, list) else []):
        if not isinstance(mount, Mapping):
            continue
        for key in ("host", "container"):
            value = mount.get(key)
            if not isinstance(value, str) or not value:
                continue
            path: Path = ("extra_mounts", i, key)
            fault = path_fault(value)
            if fault is None and key == "host" and not value.startswith(("/", "~/")):
                fault = "must be absolute or begin with ~/ (the home of the node's user)"
            if fault is None and key == "container" and (not value.startswith("/") or not value.strip("/")):
                fault = "must be an absolute path in the container, and not / itself"
            if fault is not None:
                errors.append(doc.error(f"{fault}, found {named(value)}", path))
            elif key == "container":
                target = posixpath.normpath("/" + value.lstrip("/"))
                if target in seen:
                    line, _ = doc.place(("extra_mounts", seen[target], "container"), value=True)
                    errors.append(doc.error(f"mounted twice: {named(value)} stands on line {line} already", path))
                seen.setdefault(target, i)
    return errors


def _smoke_errors(doc: Document) -> list[FileError]:
    errors: list[FileError] = []
    smoke = doc.data.get("smoke")
    checks = smoke.get("checks") if isinstance(smoke, Mapping) else None
    for i, check in enumerate(checks if isinstance(checks, list) else []):
        pattern = check.get("expect") if isinstance(check, Mapping) else None
        if isinstance(pattern, str):
            try:
                re.compile(pattern)
            except (re.error, RecursionError, OverflowError) as error:
                errors.append(doc.error(f"not a regular expression: {error}", ("smoke", "checks", i, "expect")))
    return errors


def _node_errors(doc: Document) -> list[FileError]:
    nodes: Any = doc.data.get("nodes")
    if not isinstance(nodes, Mapping):
        return []
    errors: list[FileError] = []
    for key in ("only", "prefer"):
        names = nodes.get(key)
        seen: set[str] = set()
        for i, name in enumerate(names if isinstance(names, list) else []):
            if isinstance(name, str) and name in seen:
                errors.append(doc.error(f"named twice: {named(name)}", ("nodes", key, i)))
            elif isinstance(name, str):
                seen.add(name)
    only, head, prefer = nodes.get("only"), nodes.get("head"), nodes.get("prefer")
    wanted = doc.data.get("required_nodes")
    if not isinstance(only, list) or not only or not all(isinstance(n, str) for n in only):
        return errors
    if isinstance(head, str) and head not in only:
        message = f"must be one of nodes.only, found {named(head)}"
        errors.append(doc.error(message, ("nodes", "head"), remedy=did_you_mean(head, only)))
    for i, name in enumerate(prefer if isinstance(prefer, list) else []):
        if isinstance(name, str) and name not in only:
            message = f"must be one of nodes.only, found {named(name)}"
            errors.append(doc.error(message, ("nodes", "prefer", i), remedy=did_you_mean(name, only)))
    if isinstance(wanted, int) and not isinstance(wanted, bool) and len(set(only)) < wanted:
        errors.append(
            doc.error(f"names {len(set(only))} nodes, and required_nodes is {plain(wanted)}", ("nodes", "only"))
        )
    return errors
