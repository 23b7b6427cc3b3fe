"""A plan joined with what the facts of the nodes say against it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from console.base.absent import Absent
from console.cluster.facts import NodeFacts
from console.cluster.model import Cluster
from console.plan.model import Plan
from console.plan.preflight import preflight
from console.plan.preflight_matrix import matrix
from console.recipe.model import Recipe


def with_preflight(plan: Plan, recipe: Recipe, cluster: Cluster, facts: Mapping[str, NodeFacts | Absent]) -> Plan:
    """The plan with what the facts of the nodes say against it."""
    return replace(plan, findings=preflight(recipe, cluster, plan, facts), matrix=matrix(cluster, plan, facts))
