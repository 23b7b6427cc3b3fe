"""The morning report of a night, or of the boots since some time, from what the ledger keeps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from console.base.errors import UsageError
from console.boot.report import Report, ReportBoot
from console.boot.report_write import html, markdown
from console.files.archive import read_lines
from console.files.atomic import trouble, write_whole
from console.files.boot_folder import TELEMETRY
from console.files.boot_index import BootIndex, Listed
from console.recipe.diff import diff_recipes
from console.recipe.model import Recipe
from console.services.compare import record_of
from console.services.ledger import moment

# A longer chart says no more; nights of an hour have some hundred windows a node.
POINTS = 400


def report_of_night(index: BootIndex, night: Mapping[str, Any], now: float) -> Report:
    """All boots of a night, its restored baseline with them. Raises UsageError where none began."""
    results = [r for r in night.get("results") or () if isinstance(r, dict)]
    started = [float(r["started_at"]) for r in results if r.get("started_at")]
    if not started:
        raise UsageError(f"no run of the night {night.get('id')} has begun")
    end = float(night.get("at") or now)
    rows = [b for b in index.boots() if min(started) - 1 <= b.entry.opened_at <= end + 1]
    return _report(f"Night {night.get('name') or night.get('id')}", rows, min(started), end, night)


def report_since(index: BootIndex, since: float, now: float) -> Report:
    """Raises UsageError where no boot began since."""
    rows = [b for b in index.boots() if b.entry.opened_at >= since]
    if not rows:
        raise UsageError("no boot began since then")
    return _report("Boots", rows, since, now, {})


def _report(title: str, rows: Sequence[Listed], begin: float, end: float, night: Mapping[str, Any]) -> Report:
    results = [r for r in night.get("results") or () if isinstance(r, dict)]
    said = {r["boot"]: r for r in results if isinstance(r.get("boot"), int)}
    boots = tuple(sorted((_boot(b, said.get(b.entry.number, {})) for b in rows), key=lambda b: b.record.number))
    base = _baseline(boots, night)
    if base is not None:
        boots = tuple(replace(b, from_baseline=_changes(base, b.record.recipe)) for b in boots)
    return Report(title, begin, end, boots, night)


def _baseline(boots: Sequence[ReportBoot], night: Mapping[str, Any]) -> Recipe | None:
    """The recipe of the night's baseline as it was run: of a run measured against, else of the one restored."""
    of_runs = {r.get("boot") for r in night.get("results") or () if isinstance(r, dict) and r.get("role") == "baseline"}
    for boot in boots:
        if boot.record.number in of_runs:
            return boot.record.recipe
    rules = night.get("rules")
    name = rules.get("baseline") if isinstance(rules, dict) else None
    restored = [b for b in boots if name and not b.label and b.record.recipe_slug == name]
    return restored[-1].record.recipe if restored else None


def _changes(base: Recipe, recipe: Recipe | None) -> tuple[str, ...] | None:
    return None if recipe is None else tuple(change.line for change in diff_recipes(base, recipe))


def _boot(listed: Listed, result: Mapping[str, Any]) -> ReportBoot:
    record = record_of(listed)
    at = moment(record.summary.get("started_at")) or listed.entry.opened_at
    series: dict[str, list[tuple[float, float]]] = {}
    for row in read_lines(listed.entry.path / TELEMETRY):
        pair, when, node = row.get("mem_available"), row.get("at"), row.get("node")
        if isinstance(pair, list) and pair and isinstance(pair[0], (int, float)) and isinstance(when, (int, float)):
            series.setdefault(str(node), []).append((max(0.0, when - at), pair[0] / 2**30))
    return ReportBoot(
        record,
        at,
        {node: _thin(sorted(points)) for node, points in sorted(series.items())},
        label=str(result.get("label") or ""),
        outcome=str(result.get("outcome") or ""),
        outcome_why=str(result.get("why") or ""),
    )


def _thin(points: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """At most so many points, each the lowest of its slice: the low is what the chart is for."""
    if len(points) <= POINTS:
        return points
    step = len(points) / POINTS
    slices = (points[int(i * step) : int((i + 1) * step)] for i in range(POINTS))
    return [min(part, key=lambda p: p[1]) for part in slices if part]


def write_report(report: Report, where: Path, *, force: bool = False) -> tuple[Path, ...]:
    """The files that were written: report.md and report.html in a folder, made where it is not there; or the one file
    that `where` names by ending in .md or .html. Nothing that stands there is replaced, unless by force.

    Raises UsageError where something stands there, DiskError."""
    kinds = {".md": markdown, ".html": html}
    one = where.suffix.lower() in kinds
    paths = (where,) if one else tuple(where / f"report{suffix}" for suffix in kinds)
    there = [path for path in paths if path.exists() or path.is_symlink()]
    if there and not force:
        raise UsageError(f"{there[0]} is there already", remedy="-o names another place, --force replaces it")
    folder = where.parent if one else where
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise trouble("cannot be made", folder, error) from error
    for path in paths:
        write_whole(path, kinds[path.suffix.lower()](report).encode("utf-8", "replace"))
    return paths


__all__ = ["markdown", "report_of_night", "report_since", "write_report"]
