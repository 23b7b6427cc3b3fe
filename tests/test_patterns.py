"""Every pattern that reads bytes of nodes takes time in proportion to them, whatever they are."""

from __future__ import annotations

import importlib
import pkgutil
import re
import time
from collections.abc import Iterator
from typing import Any

from console.cluster.model import Cluster, Node
from console.enginelog.board import BoardTracker
from console.enginelog.conceal import conceal_bytes
from console.services.explain import Explainer

parser: Any = importlib.import_module("re._parser")
# Patterns of our own patterns and files: no byte of a node comes by them.
OWN = frozenset({"enginelog.digits._TOKEN[0]"})
# Only ever matched at the beginning of a text, or searched in its first 2 KiB.
ANCHORED = frozenset(
    {
        "base.toml_locate._BLANK[0]",
        "enginelog.evidence_collect.ORPHAN[0]",
        "enginelog.lineformat.COMPOSE[0]",
        "enginelog.lineformat.COMPOSE_NUMBERED[0]",
        "enginelog.lineformat.NCCL[0]",
    }
)
LINES = (
    "eyJ-@", "@", "config", "inconsistent config ", "(a", "0", "E", ".so", "\r1%|", "[", "NCCL", "a | ", "\x1b[", "\r",
    "password", "INFO 01-01 00:00:00 [a.py:1] ", "x.so: cannot open shared object file ", "not a local folder/",
)  # fmt: skip
ROOMS = ("base", "enginelog", "telemetry", "services")
SCREEN, SMALL, LARGE = 400, 16 << 10, 64 << 10
FREE_S = 0.004
MOST = 8.0  # four times the text: four times the time, and sixteen where a pattern goes back


def patterns() -> dict[str, re.Pattern[Any]]:
    found: dict[str, re.Pattern[Any]] = {}
    for room in ROOMS:
        package = importlib.import_module(f"console.{room}")
        for item in pkgutil.iter_modules(package.__path__):
            module = importlib.import_module(f"console.{room}.{item.name}")
            for name, value in vars(module).items():
                for n, pattern in enumerate(within(value, 3)):
                    if all(pattern is not p for p in found.values()):
                        found[f"{room}.{item.name}.{name}[{n}]"] = pattern
    return found


def within(value: Any, depth: int) -> Iterator[re.Pattern[Any]]:
    if isinstance(value, re.Pattern):
        yield value
    elif depth and isinstance(value, tuple | list | set | frozenset):
        for item in value:
            yield from within(item, depth - 1)
    elif depth and isinstance(value, dict):
        yield from within(tuple(value.values()), depth)
    elif depth and type(value).__module__.startswith("console.") and not isinstance(value, type):
        fields = getattr(type(value), "__slots__", None) or vars(value)
        for name in fields if not isinstance(fields, str) else (fields,):
            yield from within(getattr(value, name, None), depth - 1)


def sample(node: Any, most: int) -> str:
    """A text that a part of a parsed pattern matches, more or less. most: repetitions at most."""
    op, arg = str(node[0]), node[1]
    if op == "LITERAL":
        return chr(arg)
    if op in ("NOT_LITERAL", "ANY"):
        return "a" if arg != ord("a") else "b"
    if op == "IN":
        negated = [a for a in arg if str(a[0]) == "NEGATE"]
        if negated:
            return "-"
        first = arg[-1]
        kind, value = str(first[0]), first[1]
        if kind == "RANGE":
            return chr(value[0])
        if kind == "LITERAL":
            return chr(value)
        return {"CATEGORY_DIGIT": "7", "CATEGORY_SPACE": " ", "CATEGORY_NOT_SPACE": "a", "CATEGORY_WORD": "a"}.get(
            str(value), "-"
        )
    if op in ("MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT"):
        low, high, body = arg
        return all_of(body, most) * max(int(low), min(int(high), most))
    if op == "SUBPATTERN":
        return all_of(arg[3], most)
    if op == "BRANCH":
        return all_of(arg[1][0], most)
    if op == "ATOMIC_GROUP":
        return all_of(arg, most)
    return ""


def all_of(nodes: Any, most: int) -> str:
    return "".join(sample(node, most) for node in nodes)


def units(pattern: re.Pattern[Any]) -> set[str]:
    """What is repeated: beginnings of what the pattern looks for, each of its branches, and single characters of it."""
    text = pattern.pattern.decode("latin-1") if isinstance(pattern.pattern, bytes) else pattern.pattern
    found: set[str] = set()

    def walk(nodes: Any) -> None:
        for most in (1, 3):
            parts = [sample(node, most) for node in nodes]
            for end in range(1, len(parts) + 1):
                found.add("".join(parts[:end]))
            found.update(parts)
            found.update("".join(parts[n : n + 2]) for n in range(len(parts)))
        for node in nodes:
            op, arg = str(node[0]), node[1]
            if op in ("MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT"):
                walk(arg[2])
            elif op == "SUBPATTERN":
                walk(arg[3])
            elif op == "BRANCH":
                for branch in arg[1]:
                    walk(branch)

    walk(parser.parse(text, pattern.flags & ~re.DEBUG & (~re.UNICODE if isinstance(pattern.pattern, bytes) else ~0)))
    return {unit for unit in found if 0 < len(unit) <= 200} | {"a", " ", "0", "-", "eyJ-", "a-", "a:", '="\\"'}


def seconds(pattern: re.Pattern[Any], unit: str, size: int, *, anchored: bool) -> float:
    text: Any = (unit * (size // len(unit) + 1))[:size] + "\x01"  # the end that a pattern hopes for never comes
    if isinstance(pattern.pattern, bytes):
        text = text.encode("utf-8")
    started = time.process_time()
    if anchored:
        pattern.match(text)
    else:
        pattern.sub("" if isinstance(text, str) else b"", text)
    return time.process_time() - started


def test_patterns_take_time_in_proportion() -> None:
    """Each is fed with what it looks for, over and over; the worst beginnings of it then in two sizes."""
    slow = []
    found = patterns()
    assert len(found) > 200 and found.keys() >= ANCHORED
    for name, pattern in found.items():
        if name in OWN:
            continue
        anchored = name in ANCHORED

        def cost(unit: str, size: int, pattern: re.Pattern[Any] = pattern, anchored: bool = anchored) -> float:
            return seconds(pattern, unit, size, anchored=anchored)

        for unit in sorted(units(pattern), key=lambda u: cost(u, SCREEN), reverse=True)[:1]:
            first, small = cost(unit, SMALL // 4), cost(unit, SMALL)
            if small < FREE_S or small < 5 * first:
                continue
            # Under suspicion: the best of two looks each, since a busy machine slows some.
            small, large = min(small, cost(unit, SMALL)), 0.0
            if small < 1.0 and (large := cost(unit, LARGE)) > MOST * small:
                large = min(large, cost(unit, LARGE))
            if small >= 1.0 or large > MOST * small:
                slow.append(f"{name}: {unit!r} takes {small * 1e3:.1f} ms, four times of it {large * 1e3:.1f} ms")
    assert slow == []


def test_the_proof_finds_what_goes_back() -> None:
    for bad in (r"eyJ[a-zA-Z-]{10,}\.", r"(?:config\w*)[^\n]{0,80}ranks", r"\s+$"):
        pattern = re.compile(bad)
        worst = max(units(pattern), key=lambda u: seconds(pattern, u, SCREEN, anchored=False))
        small, large = (seconds(pattern, worst, size, anchored=False) for size in (512, 2048))
        assert large > MOST * small, bad


def test_a_line_of_any_text_is_read_in_time() -> None:
    """The whole way of a line: masked, told apart, its stage, what speaks for a cause."""
    cluster = Cluster("c", "f", (Node("n1", "n1"),))
    for unit in LINES:
        board = BoardTracker(1, frozenset({"plain-secret"}))
        explainer = Explainer(board, cluster)
        line = b"2026-11-30T03:00:00.000000000Z " + (unit * SMALL)[:SMALL].encode() + b"\n"
        started = time.process_time()
        conceal_bytes(line)
        explainer.records(0, board.feed(0, line))
        assert time.process_time() - started < 0.15, unit  # at most 0.02
