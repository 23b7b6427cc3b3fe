"""What a restart changes against the boot before it: recipe, nodes, image and overrides, a line each."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from console.base.absent import Absent
from console.base.errors import NightdeckError
from console.base.text import clean_line
from console.boot.events import Acted
from console.cluster.facts import NodeFacts
from console.files.archive import read_json
from console.files.event_codec import decode_event
from console.files.journal import BootEntry, read_events
from console.plan.model import Plan
from console.plan.references import found_id
from console.recipe.diff import diff_recipes
from console.recipe.mask import masked_source
from console.recipe.model import Recipe
from console.recipe.parse import parse_recipe
from console.services.compare import recipe_as_run

# Overrides that a recipe brings itself are part of its text; their event says so.
_BY_RECIPE = "the recipe "


def restart_changes(
    entry: BootEntry | None,
    recipe: Recipe,
    plan: Plan,
    facts: Mapping[str, NodeFacts | Absent],
    *,
    override: Sequence[str] = (),
    images: Mapping[str, str] | None = None,
) -> tuple[str, ...]:
    """The first line says against what is compared. entry: the boot before; images: by node, the image Id that it runs
    now, where that is known. Reads files."""
    if entry is None:
        return (f"restart of {recipe.slug}: no boot is kept, so there is nothing to compare with",)
    images = images or _images_of(entry, plan)
    changes = [
        *_recipe_changes(entry, recipe),
        *_node_changes(read_json(entry.path / "plan.json") or {}, plan),
        *_image_changes(plan, facts, images),
        *_override_changes(entry, override),
    ]
    head = f"restart of {recipe.slug}, against boot {entry.number}"
    if entry.recipe != recipe.slug:
        head += f" of {clean_line(entry.recipe, limit=60)}"
    if not changes:
        whole = all(r.node in images and _image_now(plan, facts, r.node) for r in plan.ranks)
        return (f"{head}: nothing changed (recipe, nodes, {'image' if whole else 'image by its name'}, overrides)",)
    return (f"{head}:", *(f"  {line}" for line in changes))


def _recipe_changes(entry: BootEntry, recipe: Recipe) -> Iterable[str]:
    before = recipe_as_run(entry.path, entry.recipe)
    if before is None:
        return [f"recipe: what boot {entry.number} ran is not kept, so it cannot be compared"]
    try:
        now = parse_recipe(masked_source(recipe), slug=recipe.slug, file=recipe.file)
    except NightdeckError as error:
        return [f"recipe: it cannot be compared: {error}"]
    return [change.line for change in diff_recipes(before, now)]


def _node_changes(before: Mapping[str, Any], plan: Plan) -> Iterable[str]:
    ranks = before.get("ranks")
    rows = [r for r in ranks if isinstance(r, dict)] if isinstance(ranks, list) else []
    was = [clean_line(str(r.get("node")), limit=80) for r in rows if isinstance(r.get("node"), str)]
    now = [r.node for r in plan.ranks]
    if not was or was == now:
        return []
    return [f"nodes {', '.join(was)} -> {', '.join(now)}"]


def _images_of(entry: BootEntry, plan: Plan) -> dict[str, str]:
    """By node, the Id that the image had as the boot was launched."""
    facts = read_json(entry.path / "facts.json") or {}
    kept = (read_json(entry.path / "plan.json") or {}).get("image")
    out: dict[str, str] = {}
    for rank in plan.ranks:
        fact = facts.get(rank.node)
        ids = fact.get("image_ids") if isinstance(fact, dict) else None
        found = ids.get(kept) if isinstance(ids, dict) and isinstance(kept, str) else None
        if isinstance(found, str):
            out[rank.node] = found
    return out


def _image_changes(plan: Plan, facts: Mapping[str, NodeFacts | Absent], was: Mapping[str, str]) -> Iterable[str]:
    """The same name may stand for another build by now."""
    moved: dict[tuple[str, str], list[str]] = {}
    for rank in plan.ranks:
        now = _image_now(plan, facts, rank.node)
        before = was.get(rank.node)
        if now is not None and before is not None and now != before:
            moved.setdefault((before, now), []).append(rank.node)
    for (before, now), nodes in moved.items():
        where = "all nodes" if len(nodes) == len(plan.ranks) else ", ".join(nodes)
        yield f"image {plan.image} {_short(before)} -> {_short(now)} on {where}"


def _image_now(plan: Plan, facts: Mapping[str, NodeFacts | Absent], node: str) -> str | None:
    fact = facts.get(node)
    return found_id(plan.image, fact) if isinstance(fact, NodeFacts) else None


def _short(ident: str) -> str:
    return clean_line(ident.removeprefix("sha256:")[:12], limit=12)


def _override_changes(entry: BootEntry, override: Sequence[str]) -> Iterable[str]:
    try:
        events = [decode_event(line.event) for line in read_events(entry.path) if line.event is not None]
    except NightdeckError:
        return
    acts = [e for e in events if isinstance(e, Acted) and e.action == "override" and not e.by.startswith(_BY_RECIPE)]
    was, now = {clean_line(e.detail, limit=80) for e in acts}, set(override)
    yield from (f"+ override {code}" for code in sorted(now - was))
    yield from (f"- override {code}" for code in sorted(was - now))
