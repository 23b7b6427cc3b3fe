"""Two boots side by side: what was asked for, on what, and what came of it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from console.boot.figures import ready_text, unseen_text
from console.recipe.args import flags, positionals
from console.recipe.diff import diff_recipes
from console.recipe.model import Recipe

# Facts that differ between any two moments say nothing of the machine.
_PASSING: Final = frozenset(
    {"at", "node", "uptime_s", "clock_offset_s", "clock_error_s", "mem_available_bytes", "disk_free_bytes",
     "control_address", "missing", "image_ids", "listening_ports", "launch"}
)  # fmt: skip
_NUMBER: Final = re.compile(r"([0-9]{1,18})")


@dataclass(frozen=True, slots=True)
class Record:
    """What is kept of a boot. Anything but the summary may be missing: a boot that failed early has no more.

    memory: (seconds since the launch, bytes), the least that any node had available, in the order of time."""

    id: str
    number: int
    recipe_slug: str
    summary: Mapping[str, Any]
    recipe: Recipe | None = None
    plan: Mapping[str, Any] = field(default_factory=dict)
    facts: Mapping[str, Any] = field(default_factory=dict)
    measure: Mapping[str, Any] = field(default_factory=dict)
    memory: tuple[tuple[float, float], ...] = ()

    @property
    def label(self) -> str:
        return f"boot {self.number}" if self.number else self.recipe_slug


@dataclass(frozen=True, slots=True)
class Row:
    """One thing of both. None: not there. `change`: a difference in numbers (b less a), where both are numbers."""

    name: str
    before: str | None
    after: str | None
    change: float | None = None

    @property
    def differs(self) -> bool:
        return self.before != self.after


@dataclass(frozen=True, slots=True)
class Section:
    """Rows of one kind. side_by_side: shown whole; else only what differs."""

    name: str
    rows: tuple[Row, ...]
    unit: str = ""
    side_by_side: bool = False
    why: str = ""

    @property
    def shown(self) -> tuple[Row, ...]:
        return self.rows if self.side_by_side else tuple(r for r in self.rows if r.differs)


@dataclass(frozen=True, slots=True)
class Comparison:
    a: Record
    b: Record
    sections: tuple[Section, ...]

    @property
    def same_input(self) -> bool:
        """Nothing that was asked for, and nothing of the machines, differs: then the results' spread is the noise."""
        return all(not s.shown for s in self.sections if not s.side_by_side)


def compare(a: Record, b: Record) -> Comparison:
    """Everything that differs from `a` to `b`, and the results of both side by side."""
    if not (a.number and b.number):  # a file as it is now has only what was asked for
        return Comparison(a, b, (_recipe(a, b),))
    sections = [
        _recipe(a, b),
        _words("arguments", _flags(a), _flags(b), "no plan is kept of one of them" if not (a.plan and b.plan) else ""),
        _words("environment", _env(a), _env(b)),
        _words("image", _images(a), _images(b)),
        _nodes_section(a, b),
        _outcome(a, b),
        _numbers("stages", "s", _table(a, "stages"), _table(b, "stages"), 1.0),
        _lowest(a, b),
        _numbers("speed", "", _speed(a), _speed(b), 1.0),
        Section("text", (Row("answer", _text(a, "smoke_text"), _text(b, "smoke_text")),), side_by_side=True),
    ]
    return Comparison(a, b, tuple(sections))


def _recipe(a: Record, b: Record) -> Section:
    if a.recipe is None or b.recipe is None:
        missing = a.label if a.recipe is None else b.label
        return Section("recipe", (), why=f"the recipe of {missing} is not kept")
    rows = [
        Row(c.name if c.kind in ("flag", "key") else f"{c.kind} {c.name}", c.before, c.after)
        if c.before != c.after
        else Row(f"{c.kind} {c.name}", f"{c.before} (another)", c.after)
        for c in diff_recipes(a.recipe, b.recipe)
    ]
    return Section("recipe", tuple(rows))


def _head(record: Record) -> Mapping[str, Any]:
    ranks = record.plan.get("ranks")
    first = ranks[0] if isinstance(ranks, list) and ranks else None
    return first if isinstance(first, Mapping) else {}


def _flags(record: Record) -> dict[str, str]:
    argv = [w for w in _head(record).get("engine_argv") or () if isinstance(w, str)]
    out: dict[str, str] = {}
    if words := positionals(argv):
        out["(arguments)"] = " ".join(words)
    for flag in flags(argv):
        value = " ".join(flag.values)
        out[flag.name] = f"{out[flag.name]} | {value}" if flag.name in out else value
    return out


def _env(record: Record) -> dict[str, str]:
    env = _head(record).get("env")
    return {str(k): str(v) for k, v in env.items()} if isinstance(env, Mapping) else {}


def _images(record: Record) -> dict[str, str]:
    """The image by name, and its Id on each node; one line where all nodes have the same."""
    image = record.plan.get("image")
    out = {"reference": str(image)} if image else {}
    ids: dict[str, str] = {}
    for node, facts in record.facts.items():
        known = facts.get("image_ids") if isinstance(facts, Mapping) else None
        found = known.get(image) if isinstance(known, Mapping) else None
        if isinstance(found, str):
            ids[node] = found.removeprefix("sha256:")[:12]
    if len(set(ids.values())) == 1:
        return {**out, "Id on all nodes": next(iter(ids.values()))}
    return {**out, **{f"Id on {node}": ids[node] for node in _in_order(ids)}}


def _nodes_section(a: Record, b: Record) -> Section:
    """Facts that differ: one row where it is the same on every node, and which nodes were rebooted in between."""
    by_key: dict[str, dict[str, tuple[str | None, str | None]]] = {}
    for node in _in_order([*a.facts, *b.facts]):
        before, after = _facts(a, node), _facts(b, node)
        for key in dict.fromkeys([*before, *after]):
            by_key.setdefault(key, {})[node] = (before.get(key), after.get(key))
    rows = [Row("nodes", ", ".join(_nodes(a)) or None, ", ".join(_nodes(b)) or None)]
    booted = [n for n, (x, y) in by_key.pop("boot_id", {}).items() if x and y and x != y]
    if booted:
        rows.append(Row("rebooted in between", None, ", ".join(booted)))
    for key, values in by_key.items():
        pairs = set(values.values())
        if len(pairs) == 1 and len(values) > 1:
            rows.append(Row(f"{key} on all nodes", *next(iter(pairs))))
        else:
            rows += [Row(f"{key} on {node}", *pair) for node, pair in values.items()]
    return Section("nodes", tuple(rows))


def _in_order(nodes: Iterable[str]) -> list[str]:
    """Names once each, numbers within them as numbers: dgx2 before dgx10."""
    return sorted(
        dict.fromkeys(nodes),
        key=lambda n: [(0, p) if i % 2 == 0 else (int(p), p) for i, p in enumerate(_NUMBER.split(n))],
    )


def _facts(record: Record, node: str) -> dict[str, str]:
    facts = record.facts.get(node)
    if not isinstance(facts, Mapping):
        return {}
    return {
        key: str(value)
        for key, value in facts.items()
        if key not in _PASSING and value is not None and not isinstance(value, (Mapping, list))
    }


def _nodes(record: Record) -> list[str]:
    ranks = record.plan.get("ranks")
    rows = [r.get("node") for r in ranks if isinstance(r, Mapping)] if isinstance(ranks, list) else []
    named = rows or record.summary.get("nodes") or []
    return [n for n in named if isinstance(n, str)]


def _outcome(a: Record, b: Record) -> Section:
    rows = (
        Row("verdict", _text(a, "state"), _text(b, "state")),
        _ready(a, b),
        Row("cause", _cause(a), _cause(b)),
        Row("note", _text(a, "note"), _text(b, "note")),
    )
    return Section("outcome", rows, side_by_side=True)


def _ready(a: Record, b: Record) -> Row:
    """As every face tells it; the change in seconds."""
    x, y = (_float(r.summary.get("ready_s"), 1.0) for r in (a, b))
    said = [None if s is None else ready_text(s, str(r.summary.get("ready_by") or "")) for s, r in ((x, a), (y, b))]
    return Row("ready after", said[0], said[1], None if x is None or y is None else round(y - x, 3))


_BY_NODE = "min_available_by_node"


def _lowest(a: Record, b: Record) -> Section:
    """By node; and what of it nobody saw, which is no small memory."""
    low, other = _table(a, _BY_NODE), _table(b, _BY_NODE)
    found = _numbers("lowest memory", "GiB", low, other, 2**30, names=_in_order([*low, *other]))
    x, y = _unseen(a), _unseen(b)
    return replace(found, rows=(*found.rows, Row("not seen", x or "nothing", y or "nothing"))) if x or y else found


def _unseen(record: Record) -> str | None:
    row = record.summary
    size, started = row.get("min_available_bytes"), _float(row.get("started_at"), 1.0)
    if started is None:
        return None
    low = size if isinstance(size, int) else None
    seen, unseen = _float(row.get("memory_from"), 1.0), _float(row.get("memory_unseen_s"), 1.0)
    return unseen_text(started, seen, unseen or 0.0, low) or None


def _cause(record: Record) -> str | None:
    cause = record.summary.get("cause")
    sentence = cause.get("sentence") if isinstance(cause, Mapping) else None
    return str(sentence) if sentence else _text(record, "failed_why")


def _speed(record: Record) -> dict[str, Any]:
    out: dict[str, Any] = {
        "smoke: tokens/s": record.summary.get("tokens_per_s"),
        "smoke: first token, s": record.summary.get("first_token_s"),
    }
    levels = record.measure.get("levels")
    for level in levels if isinstance(levels, list) else ():
        if isinstance(level, Mapping):
            n = level.get("concurrency")
            for key, word in (("total_tokens_per_s", "tokens/s in all"), ("ttft_s", "first token, s")):
                spread = level.get(key)
                if isinstance(spread, Mapping):
                    out[f"{n} at once: {word}"] = spread.get("median")
    return out


def _table(record: Record, key: str) -> Mapping[str, Any]:
    value = record.summary.get(key)
    return value if isinstance(value, Mapping) else {}


def _text(record: Record, key: str) -> str | None:
    value = record.summary.get(key)
    return str(value) if value else None


def _words(name: str, a: Mapping[str, str], b: Mapping[str, str], why: str = "") -> Section:
    if why:
        return Section(name, (), why=why)
    return Section(name, tuple(Row(k, a.get(k), b.get(k)) for k in dict.fromkeys([*a, *b])))


def _numbers(
    name: str, unit: str, a: Mapping[str, Any], b: Mapping[str, Any], scale: float, names: Sequence[str] = ()
) -> Section:
    """names: in which order; else as they come."""
    rows = [_number(k, "", a.get(k), b.get(k), scale) for k in names or dict.fromkeys([*a, *b])]
    return Section(name, tuple(r for r in rows if (r.before, r.after) != (None, None)), unit, side_by_side=True)


def _number(name: str, unit: str, before: object, after: object, scale: float) -> Row:
    x, y = _float(before, scale), _float(after, scale)
    tail = f" {unit}" if unit else ""
    digits = 1 if "tokens/s" in name else 2  # as everywhere
    return Row(
        name,
        None if x is None else f"{x:.{digits}f}{tail}",
        None if y is None else f"{y:.{digits}f}{tail}",
        None if x is None or y is None else round(y - x, 3),
    )


def _float(value: object, scale: float) -> float | None:
    return value / scale if isinstance(value, (int, float)) and not isinstance(value, bool) else None


def comparison_json(found: Comparison) -> dict[str, Any]:
    return {
        "schema": 1,
        "a": _who(found.a),
        "b": _who(found.b),
        "same_input": found.same_input,
        "sections": [
            {
                "name": s.name,
                "unit": s.unit or None,
                "why": s.why or None,
                "rows": [{"name": r.name, "a": r.before, "b": r.after, "change": r.change} for r in s.shown],
            }
            for s in found.sections
        ],
    }


def _who(record: Record) -> dict[str, Any]:
    return {"id": record.id or None, "number": record.number or None, "recipe": record.recipe_slug}


def changed_lines(rows: Sequence[Row]) -> list[str]:
    """Rows as a person writes them: `--max-num-seqs 8 -> 16`."""
    out = []
    for row in rows:
        if row.before is None:
            out.append(f"+ {row.name} {row.after}".rstrip())
        elif row.after is None:
            out.append(f"- {row.name} {row.before}".rstrip())
        else:
            out.append(f"{row.name} {row.before or '(none)'} -> {row.after or '(none)'}")
    return out
