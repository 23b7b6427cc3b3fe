"""Runs on a node: the limits that a container there may be given."""

from __future__ import annotations

import os
import re
import resource
from typing import TYPE_CHECKING

from console.probe.facts_engine import daemon, daemons
from console.probe.facts_ground import PROC, Facts, read, word
from console.probe.facts_looks import LOOKS

if TYPE_CHECKING:
    from typing import Any

CAP_SYS_RESOURCE = 24  # linux/capability.h


def may_open(files: Any) -> bool:
    """Tried in the looker's process, whose own limits bind nobody else."""
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (int(files), int(files)))
    except (OSError, ValueError):
        return False
    return True


def may_lock(_about: Any) -> bool:
    """As `may_open`: memory without end."""
    try:
        resource.setrlimit(resource.RLIMIT_MEMLOCK, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    except (OSError, ValueError):
        return False
    return True


LOOKS["may_open"] = may_open
LOOKS["may_lock"] = may_lock


def gather_limits(facts: Facts) -> None:
    """What a container may raise its limits to: its parent's hard limits, or the kernel's where that may raise."""
    nr_open = int(read(PROC + "/sys/fs/nr_open"))
    if os.getuid() == 0 and not (facts.cli == "docker" and daemons()):
        opening = facts.looker.ask("may_open", nr_open)
        locking = facts.looker.ask("may_lock", None)
        may_open = facts.looker.answer(opening, facts.limit_s)
        facts.put(nofile_limit=nr_open if may_open else resource.getrlimit(resource.RLIMIT_NOFILE)[1])
        facts.put(memlock_unlimited=facts.looker.answer(locking, facts.limit_s))
        return
    if facts.cli == "podman":  # without a daemon, and here without root: the user's own limits
        hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        facts.put(nofile_limit=nr_open if hard == resource.RLIM_INFINITY else hard)
        facts.put(memlock_unlimited=resource.getrlimit(resource.RLIMIT_MEMLOCK)[1] == resource.RLIM_INFINITY)
        return
    pid = daemon()
    limits = read(f"{PROC}/{pid}/limits")
    status = read(f"{PROC}/{pid}/status")
    caps = re.search(r"^CapEff:\s*([0-9a-f]+)", status, re.M)
    # Only in the first user namespace does the capability raise limits; its map has one line that covers all ids.
    whole = (word(f"{PROC}/{pid}/uid_map") or "").split() == ["0", "0", "4294967295"]
    may_raise = bool(whole and caps and int(caps.group(1), 16) >> CAP_SYS_RESOURCE & 1)
    files = re.search(r"^Max open files\s+\S+\s+(\S+)", limits, re.M)
    locked = re.search(r"^Max locked memory\s+\S+\s+(\S+)", limits, re.M)
    if may_raise:
        facts.put(nofile_limit=nr_open, memlock_unlimited=True)
        return
    if files:
        facts.put(nofile_limit=nr_open if files.group(1) == "unlimited" else int(files.group(1)))
    if locked:
        facts.put(memlock_unlimited=locked.group(1) == "unlimited")
