"""A plan as JSON for scripts: stable field names, secrets masked."""

from __future__ import annotations

from typing import Any

from console.base.secrets import mask_text
from console.plan.masked import shown_argv, shown_engine_argv, shown_env
from console.plan.model import Plan


def plan_json(plan: Plan) -> dict[str, Any]:
    """The object of `plan NAME --json`, without `schema`, which the command adds."""
    return {
        "recipe": plan.recipe_slug,
        "title": plan.recipe_title,
        "boot_label": plan.boot_label,
        "deployment": plan.deployment,
        "image": plan.image,
        "served_name": plan.served_name,
        "port": plan.port,
        "ready_timeout_s": plan.ready_timeout_s,
        "head": plan.head_node,
        "ranks": [
            {
                "rank": rank.rank,
                "node": rank.node,
                "container": rank.container,
                "argv": list(shown_argv(plan, rank)),
                "engine_argv": list(shown_engine_argv(plan, rank)),
                "env": dict(shown_env(plan, rank)),
                "mkdirs": list(rank.mkdirs),
            }
            for rank in plan.ranks
        ],
        "differs": [
            {"what": d.what, "why": d.why, "values": [mask_text(v, plan.secrets) for v in d.values]}
            for d in plan.differs
        ],
        "unexplained": [mask_text(text, plan.secrets) for text in plan.unexplained],
        "memory": dict(plan.memory),
        "findings": [f.as_json() for f in plan.findings],
    }
