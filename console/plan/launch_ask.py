"""What a recipe makes worth asking of a node before a launch: its folders and where its model lies."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from console.base.absent import Absent
from console.cluster.model import Cluster, Node
from console.plan.effective import is_path
from console.plan.mounts import DEFAULT_HF_HOME, Bind, binds_of
from console.recipe.model import Recipe, flag_value

_UNASKED: Final = Absent("the node was not asked yet")
_YES: Final = frozenset({"1", "true", "yes", "on"})


@dataclass(frozen=True, slots=True)
class ModelPlace:
    """Where a node has the model. folder: as named (`~` is the node's own); hub: it is the model's folder in a hub
    cache, in which `revision` names a snapshot."""

    name: str
    folder: str
    hub: bool = False
    revision: str = "main"


def environment(recipe: Recipe, cluster: Cluster) -> dict[str, str]:
    """What the container's environment says beside the network's part."""
    return {**cluster.env, **recipe.env}


def raw_binds(recipe: Recipe, cluster: Cluster, node: Node) -> list[Bind]:
    """The mounts of a rank on this node, `~` as written. Raises UsageError, as the plan does."""
    return binds_of(recipe, node, _UNASKED, environment(recipe, cluster))[0]


def model_place(recipe: Recipe, cluster: Cluster, binds: Sequence[Bind]) -> ModelPlace | None:
    """None where no mount holds the model: it is in the image, or the engine fetches it."""
    if is_path(recipe.model):
        folder = _source(binds, recipe.model.rstrip("/"))
        return ModelPlace(recipe.model, folder) if folder else None
    if not re.fullmatch(r"[\w.\-]+(/[\w.\-]+)?", recipe.model):
        return None
    env = environment(recipe, cluster)
    home = env.get("HF_HOME") or DEFAULT_HF_HOME
    cache = env.get("HF_HUB_CACHE") or env.get("HUGGINGFACE_HUB_CACHE") or f"{home.rstrip('/')}/hub"
    folder = _source(binds, cache)
    if folder is None:
        return None
    revision = flag_value(recipe.args, "--revision") or "main"
    return ModelPlace(recipe.model, f"{folder}/models--{recipe.model.replace('/', '--')}", True, revision)


def is_offline(recipe: Recipe, cluster: Cluster) -> bool:
    """Whether the engine may not fetch a model."""
    env = environment(recipe, cluster)
    return any(env.get(name, "").lower() in _YES for name in ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"))


def launch_ask(recipe: Recipe, cluster: Cluster, node: Node, ranks: Sequence[str] | None = None) -> dict[str, Any]:
    """The part of the facts program's request that the recipe makes. ranks: the names of the nodes of the launch (None:
    all of the cluster); only they talk to each other, and each way costs the node two processes to try."""
    binds = raw_binds(recipe, cluster, node)
    place = model_place(recipe, cluster, binds)
    models = []
    if place is not None:
        models = [{"name": place.name, "folder": place.folder, "hub": place.hub, "revision": place.revision}]
    with_it = [n for n in cluster.nodes if n.name != node.name and (ranks is None or n.name in ranks)]
    peers = [n.fabric_address for n in with_it if n.fabric_address]
    return {
        "mounts": list(dict.fromkeys(b.source for b in binds)),
        "models": models,
        "peers": peers if recipe.required_nodes > 1 else [],
        "user": node.user or "",
    }


def _source(binds: Sequence[Bind], target: str) -> str | None:
    """The path on the node behind a path in the container; the innermost mount counts."""
    best: Bind | None = None
    for bind in binds:
        inside = target == bind.target or target.startswith(bind.target.rstrip("/") + "/")
        if inside and (best is None or len(bind.target) > len(best.target)):
            best = bind
    return None if best is None else best.source.rstrip("/") + target[len(best.target.rstrip("/")) :]


def asks(recipe: Recipe, cluster: Cluster, ranks: Sequence[str] | None = None) -> Mapping[str, Mapping[str, Any]]:
    """`launch_ask` for every node of the launch (None: of the cluster), by name."""
    nodes = [n for n in cluster.nodes if ranks is None or n.name in ranks]
    return {node.name: launch_ask(recipe, cluster, node, ranks) for node in nodes}
