"""Ranks that fell because of another: whom they accuse, and who they are."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from console.enginelog import causes_world
from console.enginelog.causes_finding import Finding, Tier, state_finding
from console.enginelog.evidence import ContainerState, Evidence

_ADDRESS: Final = re.compile(r"(?<![\d.])(\d{1,3}(?:\.\d{1,3}){3})(?![\d.])")


def named_peers(evidence: Evidence, victims: Sequence[Finding]) -> dict[int, str]:
    """Finding's id -> the address of the peer that its line names. A line may name the rank's own address as well."""
    own = {r.rank: set(r.addresses) for r in evidence.ranks}
    out: dict[int, str] = {}
    for finding in victims:
        for line in finding.evidence[:1]:
            addresses = [a for a in _ADDRESS.findall(line) if a not in own.get(finding.rank, ())]
            remote = re.search(r"remote=\[?(?:::ffff:)?(\d{1,3}(?:\.\d{1,3}){3})", line)
            if remote:
                out[id(finding)] = remote[1]
            elif addresses:
                out[id(finding)] = addresses[-1]
    return out


def by_complaint(evidence: Evidence, victims: Sequence[Finding]) -> Finding | None:
    """The rank that the victims accuse, where its own log says nothing worse."""
    if not victims:
        return None
    book = causes_world.address_book(evidence)
    peers = named_peers(evidence, victims)
    complaining = {f.rank for f in victims}
    for rank, address in causes_world.accused(victims, book, peers):
        who = next((r for r in evidence.ranks if r.rank == rank and rank is not None), None)
        lines = tuple(f.evidence[0] for f in victims if f.evidence and (not address or address in f.evidence[0]))[:3]
        if rank is None and address and causes_world.of_no_boot(address, book, evidence.world_size):
            first = min(victims, key=lambda f: f.order)
            words = f"A rank talked to {address}, which is no rank of this boot: something of an older boot is alive."
            found = next(iter(causes_world.stale_joins(evidence)), None)
            return found or replace(first, cls="stale_rendezvous", sentence=words, tier=Tier.STATE, evidence=lines)
        if who is None or who.trail is None or rank in complaining:
            continue
        box = who.container
        alive = isinstance(box, ContainerState) and not box.ended
        if alive and not any(f.cls == "peer_exited" for f in victims):
            words = f"Rank {rank} stands still: its container runs, its log stops, and the others wait for it."
            return state_finding(who, "collective_hang", words, weight=45, evidence=lines)
        words = f"Rank {rank} fell silent: its log simply stops, and the others complain of it."
        return state_finding(who, "killed_from_outside", words, weight=45, evidence=lines)
    return None


def same_of_itself(found: Sequence[Finding], first: Finding) -> tuple[int, ...]:
    """The ranks whose own logs prove the same cause of themselves, the cause's own among them."""
    if first.tier is not Tier.PROOF or first.rank is None or not first.known:
        return ()
    alike = {f.rank for f in found if f.tier is Tier.PROOF and f.cls == first.cls and f.rank is not None}
    return tuple(sorted({first.rank, *(r for r in alike if r is not None)}))


def dead_or_complaining(
    evidence: Evidence, found: Sequence[Finding], first: Finding, same: Sequence[int] = ()
) -> tuple[int, ...]:
    """Ranks other than the cause's own that ended, gave up, or complained. same: those that prove it of themselves."""
    ranks = {f.rank for f in found if f.tier in (Tier.WRAPPER, Tier.VICTIM, Tier.SYMPTOM)}
    for where in evidence.ranks:
        if isinstance(where.container, ContainerState) and where.container.ended:
            ranks.add(where.rank)
    if len(same) > 1:  # where several say it of themselves, so may one whose log nobody could read
        ranks -= {r.rank for r in evidence.ranks if r.trail is None or not r.trail.lines}
    return tuple(sorted(r for r in ranks if r is not None and r != first.rank and r not in same))


def blamed_quiet(evidence: Evidence, found: Sequence[Finding], waits: Finding) -> Finding:
    """A wait that ran out, laid to the one rank that neither complains nor ended; as it is where there are several."""
    heard = {f.rank for f in found}
    quiet = [
        r
        for r in evidence.ranks
        if r.rank is not None
        and r.rank not in heard
        and r.trail is not None
        and r.trail.lines
        and not (isinstance(r.container, ContainerState) and r.container.ended)
    ]
    if len(quiet) != 1 or len(evidence.ranks) < 3:
        return waits
    words = f"{waits.sentence} Rank {quiet[0].rank} is the only one that says nothing of it."
    return replace(waits, rank=quiet[0].rank, node=quiet[0].node, sentence=words)
