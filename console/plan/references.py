"""The names under which container engines list one image."""

from __future__ import annotations

from console.base.absent import Absent
from console.cluster.facts import NodeFacts


def references(image: str) -> tuple[str, ...]:
    """The reference as written first, then as docker and podman complete it."""
    last = image.rsplit("/", 1)[-1]
    full = image if ":" in last or "@" in last else f"{image}:latest"
    out = [image, full, f"localhost/{full}"]
    if "/" not in image:
        out.append(f"docker.io/library/{full}")
    elif "." not in image.split("/", 1)[0]:
        out.append(f"docker.io/{full}")
    return tuple(out)


def found_id(image: str, fact: NodeFacts) -> str | None:
    """The Id under which a node has the image; None where it has none, or did not say."""
    if isinstance(fact.image_ids, Absent):
        return None
    return next((fact.image_ids[ref] for ref in references(image) if ref in fact.image_ids), None)
