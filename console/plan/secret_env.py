"""The environment values of a rank that stand on no command line: the container engine's command inherits them."""

from __future__ import annotations

from collections.abc import Mapping

from console.base.secrets import is_secret_name, mask_text
from console.plan.model import Plan, RankPlan


def secret_env(plan: Plan, rank: RankPlan) -> Mapping[str, str]:
    """What is secret by its name, by its shape, or because it holds a value that is secret elsewhere in the plan."""
    return {
        name: value
        for name, value in rank.env.items()
        if value and (is_secret_name(name) or mask_text(value, plan.secrets) != value)
    }


def argv_without(rank: RankPlan, names: Mapping[str, str]) -> tuple[str, ...]:
    """What is executed on the node: `-e NAME` in place of `-e NAME=value`, which docker, podman and nerdctl all fill
    from their own environment. The engine's own arguments stay as they are."""
    cut = len(rank.argv) - len(rank.engine_argv)
    hidden = {f"{name}={value}": name for name, value in names.items()}
    return tuple(
        hidden.get(word, word) if 0 < i < cut and rank.argv[i - 1] == "-e" else word for i, word in enumerate(rank.argv)
    )


def how_secrets_travel(plan: Plan) -> tuple[str, ...]:
    """Lines about it for who reads the commands; none where nothing is secret."""
    names = dict.fromkeys(name for rank in plan.ranks for name in secret_env(plan, rank))
    if not names:
        return ()
    several = len(names) > 1
    return (
        f"# {', '.join(names)}: the value{'s travel' if several else ' travels'} on the channel's standard input and "
        f"stand{'' if several else 's'} on no command line; what runs says `-e {next(iter(names))}`, without a value",
    )
