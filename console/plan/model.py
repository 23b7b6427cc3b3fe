"""The plan as values: exactly what will be executed on which node, and nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from console.base.findings import Finding

# Labels on every container: the truth about a deployment lives on the nodes.
LABEL_DEPLOYMENT: Final = "nightdeck.deployment"  # the same on all ranks of one launch: "<slug>-b<boot>-<random>"
LABEL_BOOT: Final = "nightdeck.boot"  # the boot's number, decimal
LARGEST_FOREIGN_BOOT: Final = 999_999  # a larger one in a label is no number to count on from
LABEL_RECIPE: Final = "nightdeck.recipe"  # the recipe's slug
LABEL_DIGEST: Final = "nightdeck.digest"  # sha256 of the recipe's text, hex
LABEL_RANK: Final = "nightdeck.rank"
LABEL_WORLD: Final = "nightdeck.world"  # number of ranks
LABEL_NODE: Final = "nightdeck.node"  # the node's name in the cluster file
LABEL_HEAD: Final = "nightdeck.head"  # the head's node name
LABEL_PORT: Final = "nightdeck.port"
LABEL_SERVED: Final = "nightdeck.served"
LABEL_DEADLINE: Final = "nightdeck.ready_timeout_s"
LABEL_GUARD: Final = "nightdeck.guard"  # "off" where the recipe wants no memory guard; absent otherwise
LABEL_JUDGE: Final = "nightdeck.judge"  # "off" where answers need not be text; absent otherwise
LABEL_LAUNCHED: Final = "nightdeck.launched_at"  # epoch seconds, decimal
LABEL_TITLE: Final = "nightdeck.title"


@dataclass(frozen=True, slots=True)
class RankPlan:
    """One rank. argv: executed on the node as it stands. engine_argv: what the engine's own process gets after
    the image's or the recipe's entrypoint. env: the container's environment. mkdirs: folders to make on the node
    as the user before the start."""

    rank: int
    node: str
    is_head: bool
    container: str
    argv: tuple[str, ...]
    engine_argv: tuple[str, ...]
    env: Mapping[str, str]
    mkdirs: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Difference:
    """One thing that is not equal on all ranks: what it is, why it may differ, and the value per rank."""

    what: str
    why: str
    values: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class MatrixRow:
    """One thing on all nodes. values: node -> what it has, None where that is not known; majority: what most have."""

    what: str
    majority: str
    values: Mapping[str, str | None]

    @property
    def differs(self) -> tuple[str, ...]:
        return tuple(n for n, v in self.values.items() if v is not None and v != self.majority)

    def as_json(self) -> dict[str, Any]:
        return {
            "what": self.what,
            "majority": self.majority,
            "values": dict(self.values),
            "differs": list(self.differs),
        }


@dataclass(frozen=True, slots=True)
class Plan:
    """A rendered launch. `unexplained` must be empty: whatever differs between ranks beyond the known per-rank
    parts. findings may hold blocks: then `ok` is False and nothing may run without an override. matrix: what
    should be equal on all nodes, where they were asked. override: codes that the recipe's `[launch]` overrides.
    loads: what each GPU did under load, by node, where that was asked for (`preflight_load.measured`)."""

    recipe_slug: str
    recipe_title: str
    recipe_digest: str
    deployment: str
    boot_number: int
    boot_label: str
    image: str
    served_name: str
    port: int
    ready_timeout_s: float
    head_node: str
    ranks: tuple[RankPlan, ...]
    differs: tuple[Difference, ...] = ()
    unexplained: tuple[str, ...] = ()
    findings: tuple[Finding, ...] = ()
    memory: Mapping[str, Any] = field(default_factory=dict)
    secrets: frozenset[str] = frozenset()
    matrix: tuple[MatrixRow, ...] = ()
    override: tuple[str, ...] = ()
    loads: Mapping[str, Any] = field(default_factory=dict)

    @property
    def blocks(self) -> tuple[Finding, ...]:
        """What stops a launch: findings that block, but for those that the recipe itself overrides."""
        return tuple(f for f in self.findings if f.severity == "block" and f.code not in self.override)
