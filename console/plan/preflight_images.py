"""What facts say of the image: on which nodes it is, whether it is one, and what a launch will copy where."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Final

from console.base.absent import Absent, known
from console.base.findings import Finding
from console.base.units import size_text
from console.cluster.facts import NodeFacts
from console.cluster.launch_facts import ImageFact
from console.cluster.model import Cluster
from console.plan.codes import finding
from console.plan.model import Plan
from console.plan.odd import odd
from console.plan.references import found_id, references
from console.recipe.model import Recipe

# `docker load` unpacks into a folder of its own first, so an image needs its size twice while it comes, and a margin.
ROOM_FACTOR: Final = 2.1


def image_findings(
    recipe: Recipe, cluster: Cluster, plan: Plan, facts: Mapping[str, NodeFacts | Absent]
) -> Iterator[Finding]:
    """Nodes of the plan that lack the image, or have another. A node outside the plan may be who has it."""
    image, wanted = plan.image, recipe.launch.sync_image
    asked = {n: f for n, f in facts.items() if isinstance(f, NodeFacts) and not isinstance(f.image_ids, Absent)}
    held = {name: found for name, fact in asked.items() if (found := found_id(image, fact))}
    mine = [r.node for r in plan.ranks if r.node in asked]
    ids = {name: held[name] for name in mine if name in held}
    holders = [n for n in mine if n in held] or list(held)
    for name in (n for n in mine if n not in held):
        if holders and wanted != "never":
            yield from _copied(cluster, image, asked, name, holders[0], "no image")
        else:
            tail = f"; it is on {', '.join(holders[:3])}" if holders else "; no node of the cluster has it"
            yield finding(
                "image-missing", f"{name}: no image {image}{tail}", node=name, observed="none", expected=image
            )
    same = _same_layers(image, asked, ids)
    if same is not None:
        yield same
    elif wanted == "differs" and len(set(ids.values())) > 1:
        most = Counter(ids.values()).most_common(1)[0][0]
        giver = next(n for n, found in ids.items() if found == most)
        for name in (n for n, found in ids.items() if found != most):
            yield from _copied(cluster, image, asked, name, giver, "another image is")
    else:
        drivers = {str(asked[n].storage_driver) for n in ids if known(asked[n].storage_driver)}
        note = f"; storage drivers differ too ({', '.join(sorted(drivers))})" if len(drivers) > 1 else ""
        yield from odd("image-differs", f"Ids of {image}", ids, note, short=19)


def _copied(
    cluster: Cluster, image: str, asked: Mapping[str, NodeFacts], name: str, giver: str, what: str
) -> Iterator[Finding]:
    """The launch copies it; where the node has no room for it, that is said before the first byte."""
    fact = _image_fact(image, asked[giver])
    size = fact.size_bytes if fact is not None and known(fact.size_bytes) else None
    free = _room(cluster, asked[name])
    if size is not None and free is not None and free < round(size * ROOM_FACTOR):
        need = size_text(round(size * ROOM_FACTOR))
        yield finding(
            "image-no-room",
            f"{name}: {what} {image}, and {size_text(free)} are free where images lie: {need} are needed to copy it",
            node=name,
            observed=size_text(free),
            expected=f"at least {need}",
        )
        return
    how_much = f", {size_text(size)}" if size is not None else ""
    yield finding(
        "image-copied",
        f"{name}: {what} {image}, so the launch copies it there first, from {giver}{how_much}",
        node=name,
        observed=what,
        expected=image,
    )


def _room(cluster: Cluster, fact: NodeFacts) -> int | None:
    """What is free under the engine's root: the one path that was not asked for by name."""
    if isinstance(fact.disk_free_bytes, Absent):
        return None
    node = cluster.node(fact.node)
    named = {node.hf_cache if node is not None else None, "/", "~"}
    roots = [size for path, size in fact.disk_free_bytes.items() if path not in named]
    return roots[0] if len(roots) == 1 else None


def _image_fact(image: str, fact: NodeFacts) -> ImageFact | None:
    launch = fact.launch
    if isinstance(launch, Absent) or isinstance(launch.images, Absent):
        return None
    return next((launch.images[r] for r in references(image) if r in launch.images), None)


def _same_layers(image: str, asked: Mapping[str, NodeFacts], ids: Mapping[str, str]) -> Finding | None:
    """Different Ids of one content: where every node says its layers, and they are equal."""
    if len(set(ids.values())) < 2:
        return None
    contents: set[tuple[str, ...]] = set()
    for name in ids:
        found = _image_fact(image, asked[name])
        if found is None or not found.layers:
            return None
        contents.add((found.settings, *found.layers))
    if len(contents) != 1:
        return None
    short = ", ".join(sorted({value[:19] for value in ids.values()}))
    return finding("image-other-id", f"{image} has the same layers under {len(set(ids.values()))} Ids: {short}")
