"""Whose death a line of the node's kernel log tells: only what the kernel did to this rank explains this rank's end."""

from __future__ import annotations

import re
from collections.abc import Sequence
from enum import Enum
from typing import Final

from console.enginelog.evidence import RankEvidence

# The kernel's own OOM killer; earlyoom; the GPU's driver of a program that it stopped: process and name.
_VICTIMS: Final = (
    re.compile(r"Killed process (\d{1,10}) \(([^)\n]{1,40})\)"),
    re.compile(r"sending SIG(?:TERM|KILL) to process (\d{1,10})[^\"\n]{0,80}\"([^\"\n]{1,60})\""),
    re.compile(r"NVRM: Xid [^\n]{0,80}\bpid=(\d{1,10}), name=([^,\n]{1,60})"),
)
_ASKED: Final = re.compile(r"([\w:./\-]{1,40}) invoked oom-killer")
_OOMD: Final = re.compile(r"systemd-oomd[^\n]{0,40}Killed (\S{1,200}) due to memory")
# `oom-kill:constraint=...,task_memcg=/docker/<id>,task=python3,pid=23918,uid=0`: the kernel writes it before the kill.
_OF_CGROUP: Final = re.compile(r"task_memcg=([^,\s]{1,300}),task=[^,\n]{0,40},pid=(\d{1,10})\b")
_CONTAINER_ID: Final = re.compile(r"[0-9a-f]{64}")
# Titles that engines give their processes, and compilers that they start: little else on a node is called so.
_TITLE: Final = re.compile(r"vllm|sglang|trtllm|pt_main|ninja|nvcc|cicc|ptxas|cudafe|triton|cuda", re.IGNORECASE)
# Names that an engine has too, and many another program.
_PLAIN: Final = re.compile(r"python|pt_|ray|cc1plus|c\+\+|g\+\+|gcc|clang|ld|docker-init|tini", re.IGNORECASE)


class Whose(Enum):
    """OURS: proven, by the container's control group or a process of it. LIKELY: by a name that engines alone have.
    MAYBE: by a name that others have too. OTHERS: another container, or a name that no engine has."""

    OURS = 3
    LIKELY = 2
    MAYBE = 1
    OTHERS = 0


def whose(where: RankEvidence, line: str) -> Whose:
    """Of a line that tells of a kill; LIKELY for a line that names nobody."""
    victim = _victim(line)
    of_group = _OF_CGROUP.search(line)
    if victim is None and of_group is None:
        return _of_no_process(where, line)
    pid = victim[0] if victim is not None else int(of_group[2]) if of_group is not None else -1
    group = of_group[1] if of_group is not None else _group_of(where.kernel, pid)
    if where.container_id and group:
        return _by_group(where, group)
    if pid in where.pids:
        return Whose.OURS
    return _by_name(victim[1] if victim is not None else "")


def _victim(line: str) -> tuple[int, str] | None:
    found = next(filter(None, (pattern.search(line) for pattern in _VICTIMS)), None)
    return None if found is None else (int(found[1]), found[2])


def _of_no_process(where: RankEvidence, line: str) -> Whose:
    asked = _ASKED.search(line)
    if asked is not None:
        # Who asked for memory is not who was killed for it: another line says that.
        return Whose.MAYBE if any(map(_victim, where.kernel)) else _by_name(asked[1].rpartition(" ")[2])
    unit = _OOMD.search(line)
    return _by_group(where, unit[1]) if unit is not None and where.container_id else Whose.LIKELY


def _by_group(where: RankEvidence, group: str) -> Whose:
    return Whose.OURS if where.container_id in _CONTAINER_ID.findall(group) else Whose.OTHERS


def _by_name(name: str) -> Whose:
    if _TITLE.match(name):
        return Whose.LIKELY
    return Whose.MAYBE if not name or _PLAIN.match(name) else Whose.OTHERS


def _group_of(lines: Sequence[str], pid: int) -> str:
    """The control group that the kernel names for a process, in the line before it killed it; "" where none does."""
    for line in reversed(lines):
        found = _OF_CGROUP.search(line)
        if found is not None and int(found[2]) == pid:
            return found[1]
    return ""
