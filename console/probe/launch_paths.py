"""Runs on a node: are the folders of a launch there, of the right kind, alive, and is the model in them whole.

One child process looks at all of them, a thread each, and prints a line as each is done: a mount that hangs keeps its
own thread and the child, never the report.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from typing import Any

from console.probe.facts import Facts, Missing, one_line

# Standard input: {"paths": [...], "models": [...]}; standard output: a JSON object a line.
CHILD = r"""
import json, os, stat, struct, sys, threading
from concurrent.futures import ThreadPoolExecutor
ask = json.load(sys.stdin)
lock = threading.Lock()

def say(**row):
    with lock:
        sys.stdout.write(json.dumps(row) + "\n")
        sys.stdout.flush()

def kind_of(path):
    try:
        mode = os.stat(path).st_mode
    except FileNotFoundError:
        return "missing", ""
    except OSError as error:
        return "error", error.strerror or str(error)
    if stat.S_ISDIR(mode):
        os.access(path, os.R_OK) and next(os.scandir(path), None)
        return "dir", ""
    return ("file" if stat.S_ISREG(mode) else "other"), ""

def look(asked):
    path = os.path.abspath(os.path.expanduser(asked))
    try:
        kind, why = kind_of(path)
    except OSError as error:
        kind, why = "error", error.strerror or str(error)
    near = path
    while kind == "missing" and near != "/" and not os.path.exists(near):
        near = os.path.dirname(near)
    say(path=asked, kind=kind, why=why, writable=os.access(near, os.W_OK | os.X_OK))

def header(path):
    # safetensors: eight bytes of length, a JSON header, the tensors; the last offset says how long the file must be.
    size = os.stat(path).st_size
    with open(path, "rb") as file:
        head = file.read(8)
        if len(head) < 8:
            return size, None, "is cut off in its first bytes"
        (length,) = struct.unpack("<Q", head)
        if length > 200 << 20 or length + 8 > size:
            return size, None, "is cut off in its header"
        text = file.read(length)
    try:
        table = json.loads(text)
        ends = [v["data_offsets"][1] for k, v in table.items() if k != "__metadata__"]
        want = 8 + length + (max(ends) if ends else 0)
    except (ValueError, KeyError, TypeError, IndexError, AttributeError):
        return size, None, "has a header that cannot be read"
    if size < want:
        return size, None, "is cut off: %d of %d bytes" % (size, want)
    return size, want - 8 - length, ""

def snapshot(hub, revision):
    refs = os.path.join(hub, "refs", revision)
    if os.path.isfile(refs):
        with open(refs) as file:
            revision = file.read(100).strip()
    elif not os.path.isdir(os.path.join(hub, "snapshots", revision)):
        return None
    folder = os.path.join(hub, "snapshots", revision)
    return folder if os.path.isdir(folder) else None

def model(item):
    folder = os.path.expanduser(item["folder"])
    name = item["name"]
    row = {"model": name, "folder": folder, "missing": [], "damaged": [], "files": 0, "bytes": 0, "revision": ""}
    try:
        if item.get("hub"):
            found = snapshot(folder, item.get("revision") or "main")
            if found is None:
                say(state="missing", why="no snapshot in " + folder, **row)
                return
            folder = row["folder"] = found
            row["revision"] = os.path.basename(found)
        if not os.path.isdir(folder):
            say(state="missing", why="no folder " + folder, **row)
            return
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

        def one(name):
            try:
                return (name,) + header(os.path.join(folder, name))
            except OSError as error:
                return name, 0, None, error.strerror or str(error)

        with ThreadPoolExecutor(8) as pool:
            for name_, size, part, wrong in pool.map(one, [f for f in shards if f not in row["missing"]]):
                row["bytes"] += size
                if wrong:
                    row["damaged"].append(name_ + " " + wrong)
                elif part is not None:
                    tensors += part
        bad = row["missing"] or row["damaged"]
        if shards and not bad:
            row["tensor_bytes"] = tensors
        say(state="incomplete" if bad else "whole", why="", **row)
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        say(state="error", why="%s: %s" % (type(error).__name__, error), **row)

threads = [threading.Thread(target=look, args=(p,), daemon=True) for p in ask["paths"]]
threads += [threading.Thread(target=model, args=(m,), daemon=True) for m in ask["models"]]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
sys.stdout.flush()
os._exit(0)
"""


def gather_paths(facts: Facts) -> None:
    """`paths`: path -> {kind, why, writable}; `models`: a row each. What gave no answer in time is `hung`."""
    asked = [str(p) for p in facts.request.get("mounts") or []]
    models = [dict(m) for m in facts.request.get("models") or []]
    if not asked and not models:
        facts.put(mounts={}, models=[])
        return
    rows = ask_child({"paths": asked, "models": models}, facts.limit_s, len(asked) + len(models))
    seen = {row["path"]: row for row in rows if "path" in row}
    silent = f"gave no answer in {facts.limit_s:g} s"
    hung = {"kind": "hung", "why": silent, "writable": False}
    facts.put(mounts={p: seen.get(p, hung) for p in asked})
    done = {row["model"]: row for row in rows if "model" in row}
    facts.put(
        models=[
            done.get(m["name"], {"model": m["name"], "folder": m["folder"], "state": "hung", "why": silent})
            for m in models
        ]
    )


def ask_child(ask: dict[str, Any], limit_s: float, lines: int) -> list[dict[str, Any]]:
    """What the child printed until it was done or its time was over; it is not waited for, nor reaped, beyond that."""
    try:
        child = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", CHILD],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
    except OSError as error:
        raise Missing(f"python3: {error.strerror}") from None
    rows: list[dict[str, Any]] = []

    def pump() -> None:
        assert child.stdin is not None and child.stdout is not None
        child.stdin.write(json.dumps(ask).encode())
        child.stdin.close()
        for line in child.stdout:
            rows.append(json.loads(line))

    thread = threading.Thread(target=pump, daemon=True)
    thread.start()
    end = time.monotonic() + limit_s
    thread.join(limit_s)
    if len(rows) < lines:
        child.kill()
        if not thread.is_alive() and time.monotonic() < end and child.stderr is not None:
            raise Missing(
                "the look at the folders failed: " + one_line(child.stderr.read(4096).decode("utf-8", "replace"))
            )
    return list(rows)
