"""Eight real logs followed through lost connections and new consoles; a cable pulled while the model serves."""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from console.boot.state import Phase
from console.boot.words import out_of_sight
from console.telemetry.freshness import LOST_S
from tests.testbed.bed import Bed
from tests.testbed.following import QUICK, Cut, Deck, cut_some, log_file, pull_cable_for_long, written
from tests.testbed.host import Host

pytestmark = [pytest.mark.bed, pytest.mark.xdist_group("bed"), pytest.mark.timeout(600)]
# Beyond a quiet machine's: what a machine busy with other tests adds.
SLACK_S = 5.0


@pytest.fixture
async def deck(bed: Bed, cluster_file: Path) -> AsyncIterator[Deck]:
    deck = Deck(cluster_file)
    yield deck
    bed.calm()
    await deck.close()


@pytest.mark.slow
async def test_a_node_cut_off_while_serving_is_named_when_it_is_lost_and_heals(bed: Bed, deck: Deck) -> None:
    await deck.serving()
    begun = time.monotonic()
    bed[4].cut()
    snap = await deck.until(lambda s: s.boot is not None and s.boot.phase is Phase.DEGRADED, "degraded", 60)
    took = time.monotonic() - begun
    boot = snap.boot
    assert boot is not None
    assert (boot.ranks[3].node, boot.ranks[3].reachable, boot.ranks[3].status) == ("spark4", False, "running")
    assert "cannot see rank 3 on spark4" in out_of_sight(boot) and "dead" not in out_of_sight(boot)
    view = next(v for v in snap.nodes if v.node.name == "spark4")
    assert (view.state, took) < ("lost~", LOST_S + SLACK_S), "named as soon as its node counts as lost"
    bed[4].heal()
    healed = await deck.until(lambda s: s.boot is not None and s.boot.phase is Phase.READY, "ready again", 90)
    assert healed.boot is not None and all(r.reachable for r in healed.boot.ranks)
    assert (out_of_sight(healed.boot), healed.boot.cause) == ("", None)


async def follow_through(bed: Bed, deck: Deck, seed: int, cuts: int, kinds: tuple[Cut, ...], restarts: int) -> None:
    rng = random.Random(seed)
    await deck.serving()
    bed.each(lambda host: host.stub(FLOOD=rng.choice((20, 50, 200))))
    restart_at = set(rng.sample(range(cuts), restarts))
    for number in range(cuts):
        await cut_some(bed, rng, kinds)
        if number in restart_at:
            await deck.close()
            await asyncio.sleep(rng.uniform(0.0, 0.5))
            await deck.open()
        await asyncio.sleep(rng.uniform(0.0, 0.4))
    bed.each(lambda host: host.stub())
    await asyncio.sleep(1.5)  # the engines read their settings each second
    await compare(bed, deck)


async def compare(bed: Bed, deck: Deck) -> None:
    """The journal against what the engines hold, until it has had its time to catch up."""
    truth = dict(enumerate(bed.each(written)))
    end = time.monotonic() + 90
    while True:
        held = deck.followed()
        if all(len(held.get(rank, ())) >= len(lines) for rank, lines in truth.items()) or time.monotonic() > end:
            break
        await asyncio.sleep(0.25)
    for rank, lines in truth.items():
        # The head's log goes on: it is asked now and then.
        got = held[rank][: len(lines)] if rank == 0 else held[rank]
        stamps, wanted = [[line.split(b" ", 1)[0] for line in rows] for rows in (got, lines)]
        assert stamps == wanted, f"rank {rank}: {len(got)} of {len(lines)}, first apart at {_apart(stamps, wanted)}"
        assert [a for a, b in zip(got, lines, strict=True) if a != b and b"***" not in a] == []


def _apart(a: list[bytes], b: list[bytes]) -> int:
    return next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))


async def test_eight_logs_are_followed_through_cuts_and_a_new_console(bed: Bed, deck: Deck) -> None:
    await follow_through(bed, deck, seed=6, cuts=6, kinds=QUICK, restarts=1)


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("seed", [1, 2])
async def test_eight_logs_are_followed_through_fifty_cuts(bed: Bed, deck: Deck, seed: int) -> None:
    await follow_through(bed, deck, seed=seed, cuts=50, kinds=(*QUICK, *QUICK, *QUICK, pull_cable_for_long), restarts=5)


@pytest.mark.slow
async def test_lines_with_one_stamp_come_once_each_through_cuts(bed: Bed, deck: Deck) -> None:
    """An engine that stamps coarsely, or a file system's clock: runs of lines share a stamp in docker's own files."""
    await deck.serving()
    bed.each(lambda host: host.docker("kill", *host.containers(), check=False))  # a rank's end ends others
    await deck.until(lambda s: s.boot is not None and s.boot.phase is Phase.FAILED, "the end of all ranks")
    await deck.close()
    bed.each(_coarse)
    deck.forget_logs()
    rng = random.Random(3)
    bed.each(lambda host: host.rate(1500))
    await deck.open()
    for _ in range(4):
        await asyncio.sleep(rng.uniform(0.2, 0.5))
        await cut_some(bed, rng, QUICK[:2])
    bed.each(lambda host: host.rate(None))
    await compare(bed, deck)


def _coarse(host: Host) -> None:
    """The host's one container's log again, longer, with one stamp for each 40 lines."""
    file = log_file(host)
    rows = [json.loads(line) for line in file.read_text().splitlines()]
    second = rows[-1]["time"][:19]
    out = []
    for number in range(3000):
        row = dict(rows[number % len(rows)])
        row["log"] = f"{number % 3} the same words again and again, as engines write them while they wait\n"
        row["time"] = f"{second}.{number // 40:09d}Z"
        out.append(json.dumps(row))
    file.write_text("\n".join(out) + "\n")


@pytest.mark.slow
async def test_a_rank_that_is_started_again_is_followed_on(bed: Bed, deck: Deck) -> None:
    await deck.serving()
    host = bed[5]
    before = len(written(host))
    host.docker("restart", "-t", "1", *host.containers())
    await compare(bed, deck)
    assert len(written(host)) > before, "it wrote on after its restart"
