"""All ranks' commands shown as one: the head's command, and a line for each thing that differs."""

from __future__ import annotations

from console.base.secrets import mask_text
from console.plan.masked import command_lines
from console.plan.model import Difference, Plan
from console.plan.secret_env import how_secrets_travel


def folded(plan: Plan) -> tuple[str, ...]:
    """Lines for a person. Comments begin with `#`, so the whole can be pasted into a shell; secrets are masked."""
    head = plan.ranks[0]
    count = len(plan.ranks)
    title = f"# {plan.boot_label}: {count} rank{'s' if count > 1 else ''}, head {head.node}"
    lines = [title, f"# on {head.node} (rank 0):"]
    for rank in plan.ranks:
        if rank.is_head and rank.mkdirs:
            lines.append("# folders made before: " + " ".join(rank.mkdirs))
    lines += how_secrets_travel(plan)
    lines += command_lines(plan, head)
    if count == 1:
        return tuple(lines)
    lines.append(f"# the other {count - 1} are the same but for:")
    for difference in plan.differs:
        lines += _difference(plan, difference)
    for text in plan.unexplained:
        lines.append(f"# NOT EXPLAINED: {mask_text(text, plan.secrets)}")
    return tuple(" ".join(line.splitlines()) if line.startswith("#") else line for line in lines)


def _difference(plan: Plan, difference: Difference) -> list[str]:
    out = [f"#   {difference.what} ({difference.why}):"]
    groups: dict[str, list[str]] = {}
    for rank, value in zip(plan.ranks, difference.values, strict=True):
        groups.setdefault(value, []).append(f"{rank.rank} {rank.node}")
    for value, who in groups.items():
        out.append(f"#     {', '.join(who)}: {mask_text(value, plan.secrets) or 'nothing'}")
    return out
