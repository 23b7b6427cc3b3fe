"""What a night says in the morning: its boots, what differs, who won, and what to try next, as values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from console.boot.compare import Record
from console.boot.figures import unseen_text
from console.boot.spread import Spread, merged, spread_of_json, winner
from console.enginelog.causes_model import who_of

# Under this a node is near the point at which a GB10 stops answering (memory-gb10: keep 4 GiB and more).
LOW_GIB: Final = 4.0


@dataclass(frozen=True, slots=True)
class ReportBoot:
    """One boot. memory: node -> (seconds since the launch, GiB available at least). label, outcome, outcome_why: what
    the night called it and what it made of it, empty outside a night and for the restored baseline. from_baseline: what
    its recipe changes in the night's baseline, None where that is not known."""

    record: Record
    started_at: float
    memory: Mapping[str, Sequence[tuple[float, float]]] = field(default_factory=dict)
    label: str = ""
    outcome: str = ""
    outcome_why: str = ""
    from_baseline: tuple[str, ...] | None = None

    @property
    def name(self) -> str:
        return f"boot {self.record.number}"

    def number(self, key: str) -> float | None:
        value = self.record.summary.get(key)
        return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None

    def text(self, key: str) -> str:
        value = self.record.summary.get(key)
        return value if isinstance(value, str) else ""

    @property
    def verdict(self) -> str:
        return self.text("state") or "unknown"

    @property
    def shown_verdict(self) -> str:
        """The night's word where there is one: a boot that served and was stopped for the next is no stopped one."""
        word = self.outcome.replace("_", " ")
        return word if word and word != "failed" else self.verdict

    @property
    def bad(self) -> bool:
        return self.verdict == "failed" or self.outcome in ("not_ready", "bad_text")

    @property
    def changed(self) -> tuple[str, ...]:
        """What it changes in the night's baseline; without one, in the boot before it."""
        if self.from_baseline is not None:
            return self.from_baseline
        rows = self.record.summary.get("changed")
        return tuple(str(r) for r in rows) if isinstance(rows, list) else ()

    @property
    def cause(self) -> Mapping[str, Any]:
        """Why it failed. What a boot that served logged while it was stopped is no cause of anything."""
        if self.number("ready_s") is not None and not self.bad:
            return {}
        found = self.record.summary.get("cause")
        return found if isinstance(found, Mapping) else {}

    @property
    def why(self) -> str:
        said = str(self.cause.get("sentence") or self.text("failed_why"))
        rank, node, ranks, of = (self.cause.get(key) for key in ("rank", "node", "ranks", "of"))
        if not said or self.shown_verdict == "served":
            return "" if self.outcome == "served" else self.outcome_why
        named = rank is None or f"rank {rank}" in said.lower()
        same = [r for r in ranks if isinstance(r, int)] if isinstance(ranks, list) else []
        return said if named else f"{who_of(rank, node, same, of)}: {said}"

    @property
    def lowest_bytes(self) -> int | None:
        value = self.number("min_available_bytes")
        return None if value is None else int(value)

    @property
    def unseen(self) -> str:
        """What the lowest memory leaves out, in words."""
        seen, unseen = self.number("memory_from"), self.number("memory_unseen_s") or 0.0
        return unseen_text(self.started_at, seen, unseen, self.lowest_bytes)

    @property
    def lowest_gib(self) -> float | None:
        value = self.number("min_available_bytes")
        return None if value is None else value / 2**30

    @property
    def stages(self) -> Mapping[str, float]:
        rows = self.record.summary.get("stages")
        return (
            {k: float(v) for k, v in rows.items() if isinstance(v, (int, float))} if isinstance(rows, Mapping) else {}
        )


@dataclass(frozen=True, slots=True)
class Report:
    """boots: oldest first. night: the night's state, empty where boots of a span of time are told of."""

    title: str
    from_at: float
    to_at: float
    boots: tuple[ReportBoot, ...]
    night: Mapping[str, Any] = field(default_factory=dict)

    @property
    def results(self) -> Sequence[Mapping[str, Any]]:
        rows = self.night.get("results")
        return [r for r in rows if isinstance(r, Mapping)] if isinstance(rows, list) else []


@dataclass(frozen=True, slots=True)
class Duel:
    """One lever against the baseline at one level of concurrency, in tokens/s in all."""

    label: str
    concurrency: int
    baseline: Spread
    lever: Spread

    @property
    def verdict(self) -> str:
        return winner(self.baseline, self.lever)


def duels(report: Report) -> list[Duel]:
    """Every lever of the night against all its baselines together; runs of one label are one lever."""
    groups: dict[str, dict[int, list[Spread]]] = {}
    for result in report.results:
        label = "" if result.get("role") == "baseline" else _plain(str(result.get("label") or ""))
        for n, found in levels(result.get("measure")).items():
            groups.setdefault(label, {}).setdefault(n, []).append(found)
    base = groups.pop("", {})
    out = []
    for label, rows in groups.items():
        for n, parts in sorted(rows.items()):
            a, b = merged(base.get(n, [])), merged(parts)
            if a is not None and b is not None:
                out.append(Duel(label, n, a, b))
    return out


def levels(measure: object) -> dict[int, Spread]:
    """Concurrency -> tokens/s in all, of a `measure.json`."""
    rows = measure.get("levels") if isinstance(measure, Mapping) else None
    out: dict[int, Spread] = {}
    for row in rows if isinstance(rows, list) else ():
        found = spread_of_json(row.get("total_tokens_per_s")) if isinstance(row, Mapping) else None
        if found is not None and isinstance(row.get("concurrency"), int):
            out[row["concurrency"]] = found
    return out


def _plain(label: str) -> str:
    """A label without the count of its repeats: `lever 2/3` is `lever`."""
    head, _, tail = label.rpartition(" ")
    a, _, b = tail.partition("/")
    return head if head and a.isdigit() and b.isdigit() else label


def headline(report: Report) -> str:
    """The one sentence that somebody reads first."""
    served = sum(1 for b in report.boots if b.number("ready_s") is not None)
    failed = sum(1 for b in report.boots if b.verdict == "failed")
    late = sum(1 for b in report.boots if b.outcome == "not_ready")
    count = f"{len(report.boots)} boot{'' if len(report.boots) == 1 else 's'}"
    text = f"{count}: {served} served, {failed} failed{f', {late} not ready in time' if late else ''}"
    if not report.night:
        return text + "."
    if report.night.get("phase") != "done":
        return f"{text}. The night is not over: {report.night.get('phase')}."
    left = report.night.get("left_serving")
    return f"{text}. Left serving: {left or 'NOTHING'}. {str(report.night.get('why') or '').capitalize()}."


def next_steps(report: Report) -> list[str]:
    """What to try next, each from something that was seen. Advice that nothing was seen for is not given."""
    out: list[str] = []
    for boot in report.boots:
        action = boot.cause.get("action")
        if action:
            out.append(f"{boot.name}: {action}")
        elif boot.verdict == "failed" and not boot.why:
            out.append(f"{boot.name} failed and nothing says why: `nightdeck diagnose` over its folder, then its logs.")
        low = boot.lowest_gib
        if low is not None and low < LOW_GIB:
            node = _lowest_node(boot)
            out.append(
                f"{boot.name} came down to {low:.1f} GiB{f' on {node}' if node else ''}: "
                "lower --gpu-memory-utilization before anything else."
            )
    for duel in duels(report):
        if duel.verdict.startswith("no winner: the"):
            out.append(
                f"{duel.label} at {duel.concurrency}: the spreads overlap after {duel.lever.n} rounds; repeat both "
                "(repeats = 3) before deciding."
            )
        elif duel.verdict.startswith("+"):
            out.append(
                f"{duel.label} at {duel.concurrency}: {duel.verdict} over the baseline; take it into the recipe."
            )
    return list(dict.fromkeys(out))


def _lowest_node(boot: ReportBoot) -> str:
    rows = boot.record.summary.get("min_available_by_node")
    found = {k: v for k, v in rows.items() if isinstance(v, int)} if isinstance(rows, Mapping) else {}
    return min(found, key=lambda k: found[k]) if found else ""
