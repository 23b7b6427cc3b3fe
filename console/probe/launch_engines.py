"""Runs on a node: what else is there: engines, containers, holders of GPU memory, watchdogs, other consoles."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

from console.probe.facts_engine import NotBySocket, by_socket, command
from console.probe.facts_ground import PROC, Facts, Missing, checked, one_line, read, run, word
from console.probe.launch_host import (
    WATCHDOGS,
    gather_clocks,
    gather_image_details,
    gather_memory,
    gather_routes,
    gather_sessions,
)
from console.probe.launch_paths import gather_paths

if TYPE_CHECKING:
    from typing import Any

# Titles that the engines give their processes, and the commands that start them.
ENGINE = re.compile(
    r"^(VLLM::|sglang::|Worker_TP|EngineCore)"
    r"|(^|/)vllm\s+serve\s|vllm\.entrypoints\.|(^|\s)-m\s+vllm\b|sglang\.launch_server|(^|/)(trtllm-serve|llama-server)\b"
)
LABEL = "nightdeck.deployment"
MOST = 500
STARTERS = ("docker", "podman", "nerdctl", "ssh", "sudo", "timeout", "grep")
CONTAINER = re.compile(r"(?:docker[-/]|libpod-|/)([0-9a-f]{64})")


def gather_processes(facts: Facts) -> None:
    """`engines`: processes of engines, in whatever container or none; `watchdogs`; `consoles`: other probes of ours."""
    engines, dogs, consoles = [], set(), 0
    mine = os.environ.get("SSH_CONNECTION", "")
    uptime = float(read(PROC + "/uptime").split()[0])
    tick = os.sysconf("SC_CLK_TCK")
    for pid in os.listdir(PROC):
        if not pid.isdigit():
            continue
        comm = word(f"{PROC}/{pid}/comm")
        if comm is None:
            continue  # it has ended meanwhile
        if comm in WATCHDOGS:
            dogs.add(comm)
        line = (word(f"{PROC}/{pid}/cmdline") or "").replace("\0", " ").strip()
        if "memguard" in line and comm not in ("grep", "sh", "ssh"):
            dogs.add("memguard")
        if "nightdeck-probe" in line and not from_here(pid, mine):
            consoles += 1
        if comm not in STARTERS and ENGINE.search(line + " "):
            engines.append(engine(pid, line, uptime, tick))
    facts.put(engines=[e for e in engines if e][:200], watchdogs=sorted(dogs), consoles=consoles)


def from_here(pid: str, mine: str) -> bool:
    """Whether a probe came over this console's own connection; of another user's process that cannot be read."""
    try:
        items = read(f"{PROC}/{pid}/environ").split("\0")
    except Missing:
        return False
    return not mine or f"SSH_CONNECTION={mine}" in items


def engine(pid: str, line: str, uptime: float, tick: int) -> dict[str, Any] | None:
    text = word(f"{PROC}/{pid}/stat")
    if text is None:
        return None
    fields = text.rsplit(")", 1)[-1].split()
    if len(fields) < 22 or fields[0] in "ZX":
        return None  # a zombie holds nothing
    found = CONTAINER.search(word(f"{PROC}/{pid}/cgroup") or "")
    return {
        "pid": int(pid),
        "line": one_line(line, 120),
        "container": found.group(1) if found else "",
        "rss_bytes": int(fields[21]) * os.sysconf("SC_PAGE_SIZE"),
        "age_s": max(0.0, uptime - int(fields[19]) / tick),
    }


def gather_containers(facts: Facts) -> None:
    """All containers of the node; `ours` has the deployment label; those with an engine or GPU memory are what
    matters, which the console works out."""
    path = command(facts)
    try:
        rows = [listed(row) for row in by_socket(facts, "/containers/json?all=1")[:MOST]]
    except NotBySocket:
        rows = from_command(path, facts.limit_s)
    except (KeyError, TypeError, AttributeError):
        raise Missing(f"{facts.cli} lists containers in an unknown form") from None
    facts.put(containers=rows)


def listed(row: dict[str, Any]) -> dict[str, Any]:
    """A row of the engine's own list."""
    name = str((row.get("Names") or [""])[0]).lstrip("/")
    ours = LABEL in (row.get("Labels") or {})
    state = str(row.get("State") or "").lower()
    return {"id": str(row["Id"]), "name": name, "image": str(row.get("Image") or ""), "state": state, "ours": ours}


def from_command(path: str, limit_s: float) -> list[dict[str, Any]]:
    form = "{{.ID}}\t{{.Names}}\t{{.Image}}\t{{.Status}}"  # of the state, nerdctl has this alone
    out = checked([path, "ps", "-a", "--no-trunc", "--format", form], limit_s)
    rows = [line.split("\t") for line in out.splitlines() if line.count("\t") == 3]
    ours: set[str] = set()
    if rows:
        ours = set(checked([path, "ps", "-aq", "--no-trunc", "--filter", f"label={LABEL}"], limit_s).split())
    return [
        {"id": r[0], "name": r[1], "image": r[2], "state": state_of(r[3]), "ours": r[0] in ours} for r in rows[:MOST]
    ]


def state_of(status: str) -> str:
    """`running` of "Up 2 hours", `exited` of "Exited (137) 3 days ago", `paused` of "Up 5 minutes (Paused)"."""
    words = status.lower().split()
    if not words:
        return ""
    if words[0] == "up":
        return "paused" if words[-1] == "(paused)" else "running"
    return {"removal": "removing"}.get(words[0], words[0])


def whole(text: str) -> bool:
    """Digits of a size that a machine can have; `isdigit` alone is true of `²`, of which there is no number."""
    return text.isascii() and text.isdecimal() and len(text) < 13


def gather_gpu_memory(facts: Facts) -> None:
    status, out, err = run(
        ["nvidia-smi", "--query-compute-apps=pid,used_memory,process_name", "--format=csv,noheader,nounits"],
        facts.limit_s,
    )
    if status != 0:
        raise Missing(one_line(err or out) or f"nvidia-smi: exit status {status}")
    rows = []
    for line in out.splitlines():
        words = [w.strip() for w in line.split(",", 2)]
        if len(words) == 3 and whole(words[0]):
            found = CONTAINER.search(word(f"{PROC}/{words[0]}/cgroup") or "")
            rows.append(
                {
                    "pid": int(words[0]),
                    "bytes": int(words[1]) << 20 if whole(words[1]) else None,
                    "name": words[2][:120],
                    "container": found.group(1) if found else "",
                }
            )
    facts.put(gpu_holders=rows)


MORE = (
    (gather_paths, ("mounts", "models")),
    (gather_sessions, ("remove_ipc", "linger")),
    (gather_memory, ("swap_total_bytes", "swap_free_bytes", "cma_total_bytes", "cma_free_bytes", "page_cache_bytes",
                     "shm_total_bytes", "shm_free_bytes", "shm_leftovers")),
    (gather_clocks, ("gpu_clocks",)),
    (gather_routes, ("routes",)),
    (gather_image_details, ("images",)),
    (gather_processes, ("engines", "watchdogs", "consoles")),
    (gather_containers, ("containers",)),
    (gather_gpu_memory, ("gpu_holders",)),
)  # fmt: skip
