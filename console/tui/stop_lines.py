"""What the boot pane says of a stop: who was asked what and since when, who answered, and how it came out. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from console.boot.state import GONE, STOP_AGAIN, STOP_STEPS, BootState, RankState
from console.boot.words import KEPT, bare
from console.tui.controls_lines import person
from console.tui.figures import span
from console.tui.glyphs import Glyphs
from console.tui.spans import Line, Span, clip, fit, fit_name, line_width, safe, width_of, wrap, wrap_spans

LABEL: Final = 10
CUT_OFF_S: Final = 30.0  # past its limit: whoever asked is gone, since an answer or a refusal would have come
WRAPPED: Final = 4  # nodes; more have one line each
CLEAN: Final = ("stopped", "nothing")


def stop_sentence(results: Mapping[str, tuple[str, str]]) -> str:
    """Words that never lie: `6 stopped, 1 still running (dgx6), 1 unknown (dgx8: no answer in 10 s)`."""
    groups = (
        ("stopped", "stopped"),
        ("still_running", "still running"),
        ("unknown", "unknown"),
        ("nothing", "had nothing"),
    )
    parts = []
    for result, word in groups:
        nodes = [(safe(n), safe(d)) for n, (r, d) in results.items() if r == result]
        if not nodes:
            continue
        kept = ", ".join(n for n, d in nodes if result == "stopped" and d.startswith(KEPT))
        if kept:
            word += f" (kept, their logs are not saved: {kept})"
        named = result in ("still_running", "unknown")
        who = ", ".join(_said(n, d) if result == "unknown" else n for n, d in nodes)
        parts.append(f"{len(nodes)} {word}" + (f" ({who})" if named else ""))
    return ", ".join(parts) or "nobody was asked yet"


def stop_lines(boot: BootState, now: float, width: int, glyphs: Glyphs, key: str = "", *, me: str = "") -> list[Line]:
    """How a stop goes, or how it came out. key: what begins it again, empty where this console must not. me: how this
    console is called in the stop's `by`."""
    if not boot.stop_results and not any(s.name in STOP_STEPS for s in boot.steps):
        boot = replace(boot, stop_results=_seen(boot))
    nodes = [n for n in dict.fromkeys([*(r.node for r in boot.ranks), *boot.stop_results]) if n]
    over = boot.stop_result is not None
    lines = _outcome(boot, nodes, width, glyphs, key) if over else _progress(boot, nodes, now, width, glyphs, key, me)
    wide = min(20, max((width_of(safe(n)) for n in nodes), default=6))
    done = [n for n in nodes if boot.stop_results.get(n, ("", ""))[0] in CLEAN]
    open_ones = [n for n in nodes if n not in done or (over and _told(boot, n))]
    for node in open_ones:
        sign, role, word, detail = _node(boot, node, now, glyphs)
        lead: Line = ((f"   {fit_name(safe(node), wide)}  ", "text"), (f"{sign} {fit(word, 14)}  ", role))
        room = width - line_width(lead) - 1
        rows = wrap(detail, room, limit=1 if len(open_ones) > WRAPPED or room < 20 else 2) or [""]
        lines += [
            (*(lead if i == 0 else ((" " * line_width(lead), "text"),)), (row, "dim")) for i, row in enumerate(rows)
        ]
    rest = [n for n in done if n not in open_ones]
    for result, sign, role, word in (
        ("stopped", glyphs.done, "ok", "stopped"),
        ("nothing", glyphs.skipped, "dim", "had nothing"),
    ):
        if names := [safe(n) for n in rest if boot.stop_results[n][0] == result]:
            lines += wrap_spans((f"   {sign} {word:<12}", role), ", ".join(names), "dim", width - 1, limit=3)
    return [clip(line, width) for line in lines]


def _seen(boot: BootState) -> dict[str, tuple[str, str]]:
    """Another console's stop: what it asked is not heard here, but what becomes of the containers is seen."""
    out: dict[str, tuple[str, str]] = {}
    for rank in boot.ranks:
        if rank.status in GONE and (rank.reachable or boot.stop_result in CLEAN):
            # What was seen to be gone with the stop is not back because its node goes out of sight later.
            out.setdefault(rank.node, ("stopped", ""))
        elif boot.stop_result is not None:
            word = "still_running" if rank.reachable and rank.status is not None else "unknown"
            out[rank.node] = (word, f"its container is {rank.status}" if word != "unknown" else rank.trouble)
    return out


def _told(boot: BootState, node: str) -> bool:
    """Something was said of a node that stopped: its container was kept, or could not be removed."""
    result, detail = boot.stop_results.get(node, ("", ""))
    return result == "stopped" and bool(detail)


def _progress(
    boot: BootState, nodes: Sequence[str], now: float, width: int, glyphs: Glyphs, key: str, me: str
) -> list[Line]:
    left = [n for n in nodes if boot.stop_results.get(n, ("", ""))[0] not in CLEAN]
    took = "" if boot.stop_at is None else f" for {span(max(0.0, now - boot.stop_at))}"
    by = f" by {person(boot.stop_by)}" if boot.stop_by not in ("", me) else ""
    head = f"{glyphs.active} stopping{by}{took}: {len(nodes) - len(left)} of {len(nodes)} nodes are done"
    lines: list[Line] = [((f" {head}", "warn bold"),)]
    if nodes and not left:
        return lines
    if left and all(_cut_off(boot, n, now) for n in left):
        again = f"; [{key}] asks again" if key else ""
        text = f"nothing was heard of this stop for long: whoever began it is gone, and nothing is known{again}"
        lines += wrap_spans((" ", "text"), text, "warn", width - 1, limit=3)
    return lines


def _outcome(boot: BootState, nodes: Sequence[str], width: int, glyphs: Glyphs, key: str) -> list[Line]:
    results = boot.stop_results
    clean = [n for n in nodes if results.get(n, ("", ""))[0] in CLEAN]
    mine = {r.node for r in boot.ranks}
    unknown = [n for n in nodes if results.get(n, ("unknown", ""))[0] == "unknown"]
    lost, others = [n for n in unknown if n in mine], [n for n in unknown if n not in mine]
    alive = [n for n in nodes if results.get(n, ("", ""))[0] == "still_running"]
    count = f"{len(nodes)} nodes" if len(nodes) != 1 else "1 node"
    if boot.stop_result in CLEAN and not results:  # another console's: its end was seen on the nodes
        return [((f" {glyphs.done} stopped: nothing of it is left on {count}", "ok bold"),)]
    nowhere = [r.rank for r in boot.ranks if not r.node]
    if nowhere and not (unknown or alive):
        ranks = f"rank{'s' if len(nowhere) > 1 else ''} {', '.join(map(str, nowhere[:8]))}"
        text = f"nothing of it runs on {count} that answered; where {ranks} ran was never seen, and nobody was asked"
        return [
            *wrap_spans((f" {glyphs.warn} ", "warn bold"), text, "warn bold", width - 1, limit=3),
            *_kept(boot, width),
        ]
    if not (unknown or alive):
        text = f" {glyphs.done} stopped: every node was asked, and nothing of it runs on {count}"
        return [((text, "ok bold"),), *_kept(boot, width)]
    parts = [f"stopped on {len(clean)} of {len(nodes)}" if clean else f"not stopped on any of {count}"]
    if lost:
        names = ", ".join(safe(n) for n in lost)
        they = "its container" if len(lost) == 1 else "their containers"
        parts.append(f"{names} {'does' if len(lost) == 1 else 'do'} not answer: {they} may still run")
    if alive:
        names = ", ".join(safe(n) for n in alive)
        parts.append(f"on {names} it still runs")
    if others:
        names = ", ".join(safe(n) for n in others)
        parts.append(f"{names} {'does' if len(others) == 1 else 'do'} not answer, and had no rank of it")
    lines = wrap_spans((f" {glyphs.warn} ", "bad bold"), "; ".join(parts), "bad bold", width - 1, limit=3)
    again = f"[{key}] asks {'it' if len(unknown) + len(alive) == 1 else 'them'} again" if key else "ask again"
    advice: list[str] = []
    if lost:
        box = next((safe(r.container) for r in boot.ranks if r.node == lost[0]), "")
        there = f"removing {box} at {safe(lost[0])} itself ends it" if len(lost) == 1 else "or end it at the nodes"
        advice.append(f"{again}, best when the network is back; {there}. Until then no launch is safe there")
    elif others and not alive:
        advice.append(again)
    if alive:
        first = again[:1].upper() + again[1:] if lost else again
        hangs = "a container that survives a kill hangs in the driver, as a rule"
        advice.append(f"{first}; {hangs}: restart the container engine there, or the node")
    text = ". ".join(advice) + "."
    lines += wrap_spans((fit(" what now", LABEL + 1), "head"), text, "ok", width - 1, limit=4)
    return [*lines, *_kept(boot, width)]


def _kept(boot: BootState, width: int) -> list[Line]:
    kept = [safe(n) for n, (r, d) in boot.stop_results.items() if r == "stopped" and d.startswith(KEPT)]
    if not kept:
        return []
    text = f"ended, and kept because their logs are not saved: {', '.join(kept)}"
    return wrap_spans((" ", "text"), text, "warn", width - 1, limit=2)


def _asked(boot: BootState, node: str) -> tuple[str, float, float | None] | None:
    """What a node was asked last: the step, when, and how long an answer is waited for."""
    at = None
    for step in boot.steps:
        if step.name in STOP_STEPS and step.states.get(node) == "running" and node in step.since:
            at = (step.name, step.since[node], step.limits.get(node))
    return at


def _cut_off(boot: BootState, node: str, now: float) -> bool:
    asked = _asked(boot, node)
    return asked is not None and asked[2] is not None and now - asked[1] > asked[2] + CUT_OFF_S


def _node(boot: BootState, node: str, now: float, glyphs: Glyphs) -> tuple[str, str, str, str]:
    """(sign, role, word, what is known) of one node."""
    result, detail = boot.stop_results.get(node, ("", ""))
    asked = _asked(boot, node)
    over = boot.stop_result is not None
    rank = next((r for r in boot.ranks if r.node == node), None)
    if result == "still_running":
        return glyphs.failed, "bad", "still running", safe(detail)
    if result in CLEAN:
        return glyphs.done, "ok", "stopped", safe(detail)
    if over:
        return _after(rank, node, detail, glyphs)
    if result == "unknown" and (asked is None or asked[0] != STOP_AGAIN):
        return glyphs.unknown, "warn", "no answer", safe(bare(node, detail))
    if asked is None:
        if rank is not None and rank.reachable and rank.status is not None:
            return glyphs.active, "active", "still there", f"its container is {rank.status}"
        return glyphs.unknown, "warn", "not known", safe(bare(node, rank.trouble)) if rank is not None else ""
    name, since, limit = asked
    waited = max(0.0, now - since)
    of = "" if limit is None else f", at most {limit:.0f} s"
    if limit is not None and waited > limit + CUT_OFF_S:
        return glyphs.unknown, "warn", "no word", f"{name}: asked {span(waited)} ago"
    dark = f"; {safe(bare(node, rank.trouble))}" if rank is not None and not rank.reachable and rank.trouble else ""
    return glyphs.active, "active", f"asked {waited:.0f} s", f"{name}: no answer yet{of}{dark}"


def _after(rank: RankState | None, node: str, detail: str, glyphs: Glyphs) -> tuple[str, str, str, str]:
    """A node that did not answer the stop, by what is known of it since."""
    why = safe(bare(node, detail)) or "no answer"
    if rank is None or not rank.reachable or rank.status is None:
        seen = f"; last seen {rank.status}" if rank is not None and rank.status else ""
        return glyphs.unknown, "warn", "unknown", f"{why}{seen}"
    if rank.status in GONE:
        return glyphs.done, "ok", "answers again", f"its container is {rank.status}"
    return glyphs.failed, "bad", "answers again", f"its container is {rank.status}"


def _said(node: str, detail: str) -> str:
    return f"{node}: {words}" if (words := bare(node, detail)) else node


def stopped_word(rank: RankState) -> Span:
    """The state of a rank's container before a stop, honestly: what a lost node runs is not known."""
    if not rank.reachable:
        return f"lost, was {rank.status}" if rank.status else "lost", "lost"
    if rank.status is None:
        return "not known", "dim"
    if rank.status == "absent":
        return "gone", "dim"
    return rank.status, "ok" if rank.status == "running" else "warn"
