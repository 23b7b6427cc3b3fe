"""What only the ranks together show: who is missing, who differs, whom the others complain of."""

from __future__ import annotations

import ipaddress
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from console.base.absent import Absent
from console.enginelog.causes_finding import Finding, Tier, state_finding
from console.enginelog.causes_states import has_container
from console.enginelog.evidence import ContainerState, Evidence, RankEvidence
from console.enginelog.stages_model import Stage

# What all ranks of a boot must say alike. Inferred from the engine: these follow from its arguments and its image.
_ALIKE: Final = (
    "world_size", "max_model_len", "architecture", "version", "backend", "attention_backend", "moe_backend", "eager",
    "engram_mode", "dtype",
)  # fmt: skip


def began(where: RankEvidence) -> bool:
    """The rank's log shows that its engine ran at all."""
    return where.trail is not None and where.trail.lines > 0


def came(where: RankEvidence) -> bool:
    """The rank's log says that it began to wait for the others, or got further."""
    return any(c.line is not None and c.stage >= Stage.RENDEZVOUS for c in where.cells)


def missing(evidence: Evidence) -> list[RankEvidence]:
    """Ranks that never came to the rendezvous, as far as the evidence covers every rank: of a rank without a log and
    without a known state nothing is known. Where others came and wait, a rank whose container is known and which left
    no line is the one they wait for: nothing keeps an empty log."""
    out: list[RankEvidence] = []
    if len(evidence.ranks) < 2:
        return out
    waited_for = any(came(r) for r in evidence.ranks)
    for where in evidence.ranks:
        if where.rank is None or came(where):
            continue
        container = has_container(where)
        if where.trail is not None or container is False or (container and waited_for) or where.reachable is False:
            out.append(where)
    return out


def absence(where: RankEvidence) -> int:
    """How sure it is that a rank is missing, 0 the surest: it has no container, its container ended, it never spoke,
    or it only has not come yet."""
    if has_container(where) is False:
        return 0
    if isinstance(where.container, ContainerState) and where.container.ended:
        return 1
    return 2 if not began(where) else 3


def differences(evidence: Evidence) -> list[Finding]:
    """Ranks whose logs show other arguments, another image or a number that another rank has too."""
    out: list[Finding] = []
    told = [r for r in evidence.ranks if r.numbers is not None]
    for name in _ALIKE:
        values = {id(r): v for r in told if not isinstance(v := getattr(r.numbers, name), Absent)}
        if len(set(map(str, values.values()))) < 2:
            continue
        usual, count = Counter(map(str, values.values())).most_common(1)[0]
        if count * 2 <= len(values):
            head = next((r for r in told if r.rank == 0 and id(r) in values), None)
            usual = str(values[id(head)]) if head is not None else usual
        for where in told:
            if id(where) in values and str(values[id(where)]) != usual:
                words = f"Rank {where.rank} says {name.replace('_', ' ')} {values[id(where)]}; the others say {usual}."
                out.append(state_finding(where, "rank_args_differ", words, weight=65, evidence=(words,)))
    return out + _same_number(told) + _masters(told)


def _same_number(told: Sequence[RankEvidence]) -> list[Finding]:
    taken: dict[int, RankEvidence] = {}
    out = []
    for where in told:
        number = where.numbers.log_rank if where.numbers is not None else Absent("")
        if isinstance(number, Absent) or where.rank is None:
            continue
        if number != where.rank:
            words = f"The container of rank {where.rank} was started as rank {number}."
            out.append(state_finding(where, "rank_args_differ", words, weight=72, evidence=(words,)))
        elif number in taken:
            words = f"Two containers were started as rank {number}."
            out.append(state_finding(where, "rank_args_differ", words, weight=72, evidence=(words,)))
        taken.setdefault(number, where)
    return out


def _masters(told: Sequence[RankEvidence]) -> list[Finding]:
    values = {id(r): str(m) for r in told if r.numbers is not None and not isinstance(m := r.numbers.master, Absent)}
    if len(set(values.values())) < 2:
        return []
    head = next((values[id(r)] for r in told if r.rank == 0 and id(r) in values), None)
    usual = head if head is not None else Counter(values.values()).most_common(1)[0][0]
    odd = [r for r in told if id(r) in values and values[id(r)] != usual]
    if len(odd) > 1 and len(odd) == len(values) - 1:
        # All others agree: then it is the head that has another address.
        others = {values[id(r)] for r in odd}
        if len(others) == 1:
            odd, usual = [r for r in told if r.rank == 0], others.pop()
    out = []
    for where in odd:
        words = f"Rank {where.rank} looks for the head at {values[id(where)]}; the others at {usual}."
        out.append(state_finding(where, "master_addr_wrong", words, weight=80, evidence=(words,), stage="rendezvous"))
    return out


def address_book(evidence: Evidence) -> dict[str, int]:
    """IP address -> rank: what the caller knows, and the head's own by what the ranks say of their master."""
    book: dict[str, int] = {}
    for where in evidence.ranks:
        if where.rank is not None:
            book.update(dict.fromkeys(where.addresses, where.rank))
            master = where.numbers.master if where.numbers is not None else Absent("")
            if not isinstance(master, Absent):
                book.setdefault(str(master).rpartition(":")[0].strip("[]"), 0)
    book.update(evidence.addresses)
    return book


def accused(
    victims: Sequence[Finding], book: Mapping[str, int], peers: Mapping[int, str]
) -> list[tuple[int | None, str]]:
    """Whom the victims complain of, most often named first: (rank or None, address). peers: finding's id -> address."""
    named: Counter[str] = Counter()
    for finding in victims:
        address = peers.get(id(finding), "")
        if address:
            named[address] += 1
        elif finding.cls == "head_gone" and finding.rank not in (0, None):
            named["head"] += 1
    return [(0 if a == "head" else book.get(a), "" if a == "head" else a) for a, _ in named.most_common()]


def of_no_boot(address: str, book: Mapping[str, int], world: int | None) -> bool:
    """An address that no rank of this boot has, where every rank's address is known."""
    if address in book or world is None or len(set(book.values())) < world:
        return False
    try:
        return not ipaddress.ip_address(address).is_loopback
    except ValueError:
        return False


def stale_joins(evidence: Evidence) -> list[Finding]:
    """Ranks that were placed in a world before the head's own container was there: it was an older boot's world."""
    head = next((r for r in evidence.ranks if r.rank == 0), None)
    if head is None:
        return []
    box = head.container
    start = box.started_at if isinstance(box, ContainerState) else None
    if start is None and head.trail is not None and head.trail.first is not None:
        start = head.trail.first.docker_at
    if start is None:
        return []
    out = []
    for where in evidence.ranks:
        if where.rank in (0, None):
            continue
        joined = next((c for c in where.cells if c.stage is Stage.MODEL and c.line is not None), None)
        if joined is not None and joined.at is not None and joined.at + where.clock_offset_s < start - 5.0:
            words = (
                f"Rank {where.rank} was placed in a world before this boot's head was started: it joined an older one."
            )
            out.append(
                replace(
                    state_finding(where, "stale_rendezvous", words, weight=82, moment=joined.at, stage="rendezvous"),
                    tier=Tier.STATE,
                    file=where.file,
                    index=joined.line,
                )
            )
    return out
