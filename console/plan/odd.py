"""One finding for values that should be equal on all nodes and are not."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from console.base.findings import Finding
from console.plan.codes import finding


def odd(code: str, what: str, values: Mapping[str, str], note: str = "", short: int = 60) -> Iterator[Finding]:
    """Names the nodes of each value, the most common value first; nothing where all are equal."""
    groups: dict[str, list[str]] = {}
    for name, value in values.items():
        groups.setdefault(value, []).append(name)
    if len(groups) < 2:
        return
    ordered = sorted(groups.items(), key=lambda item: -len(item[1]))
    texts = [f"{value[:short]} on {', '.join(names)}" for value, names in ordered]
    alone = ordered[1][1][0] if len(ordered) == 2 and len(ordered[1][1]) == 1 else None
    yield finding(
        code,
        f"{what} differ: {'; '.join(texts)}{note}",
        node=alone,
        observed=ordered[1][0][:short],
        expected=ordered[0][0][:short],
    )
