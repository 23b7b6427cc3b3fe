"""Runs on a node: are the folders of a launch there, of the right kind, alive, and is the model in them whole."""

from __future__ import annotations

import json
import os
import stat
import struct
import threading
from typing import TYPE_CHECKING

from console.probe.facts_ground import Facts, Missing
from console.probe.facts_looks import LOOKS

if TYPE_CHECKING:
    from typing import Any

MAX_HEADER = 200 << 20
READERS = 8


def kind_of(path: str) -> tuple[str, str]:
    try:
        mode = os.stat(path).st_mode
        if stat.S_ISDIR(mode):
            if os.access(path, os.R_OK):
                with os.scandir(path) as entries:
                    next(entries, None)
            return "dir", ""
    except FileNotFoundError:
        return "missing", ""
    except OSError as error:
        return "error", error.strerror or str(error)
    return ("file" if stat.S_ISREG(mode) else "other"), ""


def look_at_path(asked: Any) -> dict[str, Any]:
    path = os.path.abspath(os.path.expanduser(str(asked)))
    kind, why = kind_of(path)
    near = path
    while kind == "missing" and near != "/" and not os.path.exists(near):
        near = os.path.dirname(near)
    return {"kind": kind, "why": why, "writable": os.access(near, os.W_OK | os.X_OK)}


def header(path: str) -> tuple[int, int | None, str]:
    """(bytes of the file, bytes of its tensors, what is wrong). safetensors: eight bytes of length, a JSON header, the
    tensors; the last offset says how long the file must be."""
    size = os.stat(path).st_size
    with open(path, "rb") as file:
        head = file.read(8)
        if len(head) < 8:
            return size, None, "is cut off in its first bytes"
        (length,) = struct.unpack("<Q", head)
        if length > MAX_HEADER or length + 8 > size:
            return size, None, "is cut off in its header"
        text = file.read(length)
    try:
        table = json.loads(text)
        ends = [v["data_offsets"][1] for k, v in table.items() if k != "__metadata__"]
        want = 8 + length + (max(ends) if ends else 0)
    except (ValueError, KeyError, TypeError, IndexError, AttributeError):
        return size, None, "has a header that cannot be read"
    if size < want:
        return size, None, f"is cut off: {size} of {want} bytes"
    return size, want - 8 - length, ""


def headers(folder: str, names: list[str]) -> list[tuple[str, int, int | None, str]]:
    """`header` of each file, some at a time: the disks of a node are faster than one reader."""
    rows: dict[str, tuple[str, int, int | None, str]] = {}
    waiting = list(reversed(names))

    def work() -> None:
        while True:
            try:
                name = waiting.pop()
            except IndexError:
                return
            try:
                rows[name] = (name, *header(os.path.join(folder, name)))
            except OSError as error:
                rows[name] = (name, 0, None, error.strerror or str(error))

    threads = [threading.Thread(target=work, daemon=True) for _ in range(min(READERS, len(names)))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return [rows[name] for name in names]


def snapshot(hub: str, revision: str) -> str | None:
    refs = os.path.join(hub, "refs", revision)
    if os.path.isfile(refs):
        with open(refs) as file:
            revision = file.read(100).strip()
    elif not os.path.isdir(os.path.join(hub, "snapshots", revision)):
        return None
    folder = os.path.join(hub, "snapshots", revision)
    return folder if os.path.isdir(folder) else None


def look_at_model(item: Any) -> dict[str, Any]:
    folder = os.path.expanduser(str(item["folder"]))
    row: dict[str, Any] = {"model": item["name"], "folder": folder, "missing": [], "damaged": [], "files": 0}
    row.update(bytes=0, revision="")
    try:
        if item.get("hub"):
            found = snapshot(folder, item.get("revision") or "main")
            if found is None:
                return {**row, "state": "missing", "why": "no snapshot in " + folder}
            folder = row["folder"] = found
            row["revision"] = os.path.basename(found)
        if not os.path.isdir(folder):
            return {**row, "state": "missing", "why": "no folder " + folder}
        whole = weigh(folder, row)
        return {**row, "state": "whole" if whole else "incomplete", "why": ""}
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        return {**row, "state": "error", "why": f"{type(error).__name__}: {error}"}


def weigh(folder: str, row: dict[str, Any]) -> bool:
    """Look at a model's files, and write what they are into the row. True: it is whole."""
    there = os.listdir(folder)
    row["files"] = len(there)
    index = os.path.join(folder, "model.safetensors.index.json")
    shards = sorted(f for f in there if f.endswith(".safetensors"))
    weights = [f for f in there if f.endswith((".safetensors", ".bin", ".gguf", ".pt", ".pth"))]
    if os.path.exists(index):
        with open(index, "rb") as file:
            table = json.loads(file.read(256 << 20))
        shards = sorted({str(f) for f in table["weight_map"].values()})
        row["missing"] = [f for f in shards if not os.path.exists(os.path.join(folder, f))]
    elif os.path.lexists(index):
        row["missing"] = ["model.safetensors.index.json"]
    elif not weights:
        row["missing"] = ["*.safetensors"]
    if "config.json" not in there and not any(w.endswith(".gguf") for w in weights):
        row["missing"].append("config.json")
    tensors = 0
    for name, size, part, wrong in headers(folder, [f for f in shards if f not in row["missing"]]):
        row["bytes"] += size
        if wrong:
            row["damaged"].append(f"{name} {wrong}")
        elif part is not None:
            tensors += part
    whole = not (row["missing"] or row["damaged"])
    if shards and whole:
        row["tensor_bytes"] = tensors
    return whole


LOOKS["path"] = look_at_path
LOOKS["model"] = look_at_model


def gather_paths(facts: Facts) -> None:
    """`mounts`: path -> {kind, why, writable}; `models`: a row each. What gave no answer in time is `hung`."""
    paths = [str(p) for p in facts.request.get("mounts") or []]
    models = [dict(m) for m in facts.request.get("models") or []]
    looks = [(p, facts.looker.ask("path", p)) for p in paths]
    reads = [(m, facts.looker.ask("model", m)) for m in models]
    mounts: dict[str, Any] = {}
    for path, look in looks:
        try:
            mounts[path] = facts.looker.answer(look, facts.limit_s)
        except Missing as error:
            mounts[path] = {"kind": "hung", "why": str(error), "writable": False}
    facts.put(mounts=mounts)
    rows = []
    for model, read in reads:
        try:
            rows.append(facts.looker.answer(read, facts.limit_s))
        except Missing as error:
            rows.append({"model": model["name"], "folder": model["folder"], "state": "hung", "why": str(error)})
    facts.put(models=rows)
