"""Which nodes take part, in which order: the first chosen is the head, rank 0."""

from __future__ import annotations

from collections.abc import Sequence

from console.base.errors import UsageError
from console.cluster.model import Cluster, Node
from console.recipe.model import Recipe


def choose_nodes(
    recipe: Recipe,
    cluster: Cluster,
    *,
    nodes: Sequence[str] | None = None,
    node_count: int | None = None,
    head: str | None = None,
) -> tuple[Node, ...]:
    """The nodes of a launch. `nodes` (the operator's) before `[nodes] only`; `prefer` first, then the cluster's order;
    `head` (the operator's, else the recipe's) to the front. Raises UsageError for names that the cluster lacks and for
    fewer nodes than are needed."""
    count = recipe.required_nodes if node_count is None else node_count
    if count < 1:
        raise UsageError(f"a launch needs at least one node, not {count}")
    chosen_head = head or recipe.nodes.head
    where = recipe.file
    _known(cluster, recipe.nodes.only, f"{where}: [nodes] only")
    _known(cluster, recipe.nodes.prefer, f"{where}: [nodes] prefer")
    if chosen_head:
        _known(cluster, (chosen_head,), "--head" if head else f"{where}: [nodes] head")
    if nodes is not None:
        _known(cluster, nodes, "nodes asked for")
    allowed = tuple(nodes) if nodes is not None else recipe.nodes.only
    pool = [n for n in cluster.nodes if not allowed or n.name in allowed]
    if chosen_head and all(n.name != chosen_head for n in pool):
        raise UsageError(
            f"the head {chosen_head} is not among the nodes that may be taken: {', '.join(n.name for n in pool)}",
            where=where,
        )
    if len(pool) < count:
        names = ", ".join(n.name for n in pool) or "none"
        raise UsageError(
            f"{recipe.slug} needs {count} nodes, {len(pool)} may be taken: {names}",
            where=where,
            remedy=f"{_more(cluster)}, or give --nodes if the recipe can run on fewer",
        )
    rank = {name: i for i, name in enumerate(recipe.nodes.prefer)}
    order = {n.name: i for i, n in enumerate(cluster.nodes)}
    pool.sort(key=lambda n: (n.name != chosen_head, rank.get(n.name, len(rank)), order[n.name]))
    return tuple(pool[:count])


def _more(cluster: Cluster) -> str:
    """How a cluster gets more nodes; one without a file is this machine alone."""
    if cluster.file:
        return f"add nodes to {cluster.file}"
    return "take a cluster of several machines (`nightdeck cluster init HOST…` writes its file, --cluster names it)"


def _known(cluster: Cluster, names: Sequence[str], where: str) -> None:
    for name in names:
        if cluster.node(name) is None:
            raise UsageError(
                f"there is no node {name!r} in cluster {cluster.name}",
                where=where,
                remedy=f"its nodes: {', '.join(n.name for n in cluster.nodes)}",
            )
