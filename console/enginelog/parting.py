"""One stream of several writers: which prefix parts it, and which ranks the names in it are."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from console.enginelog.unwrap import HOSTS, WRAPPINGS, Wrapping, unwrapped

_LOOKED_AT: Final = 200
_LEAST: Final = 8
# Compose's own prefix, for names with a number: `service-3  | `, `rank3 | `, `vllm_rank_3_1 | `.
_COMPOSE: Final = Wrapping(
    re.compile(rb"(?:\x1b\[[0-9;]{0,8}m)?(?P<name>[A-Za-z0-9][\w.\-]{0,63}?)[ \t]*\|(?:\x1b\[[0-9;]{0,8}m)? ?"), False
)
_NUMBERED: Final = re.compile(rb"rank[-_]?\d{1,4}|(?:^|[-_])\d{1,4}$")
_SAYS_RANK: Final = re.compile(rb"(?:^|[-_.])rank[-_]?(\d{1,4})(?![0-9])")
_COUNTED: Final = re.compile(rb"([\w.\-]{1,200})[-_](\d{1,4})")
_MOST_NAMES: Final = 512


@dataclass(frozen=True, slots=True)
class Parting:
    """group: which part of the prefix names the writer: a `name`, or the `host` of a log that several nodes sent to."""

    wrapping: Wrapping
    group: str = "name"

    def part(self, line: bytes) -> tuple[bytes, bytes]:
        """(who wrote it, the line without the prefix); nobody for a line without one."""
        found = self.wrapping.pattern.match(line)
        if found is None:
            return b"", line
        return found[self.group] or b"", unwrapped(line, self.wrapping)


def parting_of(data: bytes) -> Parting | None:
    """What parts the lines of which these are the first; None where they are of one writer, or may be."""
    lines = [line for line in data.split(b"\n")[:_LOOKED_AT] if line.strip()]
    numbered = [m["name"] for line in lines if (m := _COMPOSE.pattern.match(line)) and _NUMBERED.search(m["name"])]
    if len(set(numbered)) > 1 and len(numbered) * 2 > len(lines):
        return Parting(_COMPOSE)
    for wrapping in WRAPPINGS:
        groups = wrapping.pattern.groupindex
        group = "host" if "host" in groups else "name"
        if group not in groups:
            continue
        found = [m[group] for line in lines if (m := wrapping.pattern.match(line))]
        if len(found) * 10 < len(lines) * 9 or len(set(found)) < 2 or len(found) < (1 if wrapping.sure else _LEAST):
            continue
        # Words of an engine or a kernel may look like a name; a name that writes comes again, and hosts have numbers.
        if not wrapping.sure and any(found.count(name) < 2 for name in set(found)):
            continue
        if wrapping is HOSTS and not all(any(48 <= c < 58 for c in name) for name in set(found)):
            continue
        return Parting(wrapping, group)
    return None


def says_rank(name: bytes) -> int | None:
    """The rank that a name says by itself: `vllm-rank3`, or the bare number of `srun --label` and `mpirun`."""
    if name.isdigit():
        return int(name)
    found = _SAYS_RANK.search(name)
    return int(found[1]) if found else None


def ranks_by_name(names: Iterable[bytes]) -> dict[bytes, int]:
    """Ranks of names that count from zero, as the pods of a StatefulSet or of a LeaderWorkerSet do. Compose counts its
    copies from one, and a pod's or a host's number may mean anything: those say no rank."""
    known = [name for name in names if name][:_MOST_NAMES]
    said = {name: rank for name in known if (rank := says_rank(name)) is not None}
    if said:
        return _once(said)
    leader = min(known, key=len, default=b"")
    workers = {name: name.removeprefix(leader + b"-") for name in known if name != leader}
    if workers and _COUNTED.fullmatch(leader) and all(w.isdigit() and w != b"0" for w in workers.values()):
        return _once({leader: 0, **{name: int(number) for name, number in workers.items()}})
    counted = {name: found for name in known if (found := _COUNTED.fullmatch(name))}
    numbers = {name: int(found[2]) for name, found in counted.items()}
    same = len({found[1] for found in counted.values()}) == 1 and len(counted) == len(known)
    return _once(numbers) if same and len(known) > 1 and 0 in numbers.values() else {}


def _once(ranks: dict[bytes, int]) -> dict[bytes, int]:
    """Without those that two names share."""
    numbers = list(ranks.values())
    return {name: rank for name, rank in ranks.items() if numbers.count(rank) == 1}
