"""What a launch or a stop will do, in lines to read before it is agreed to. Pure."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from console.base.errors import NightdeckError
from console.boot.state import GONE, BootState, Phase
from console.plan.codes import LIFTED_BY_A_STOP
from console.plan.model import Plan
from console.recipe.model import Recipe
from console.tui.boot_lines import phase_span
from console.tui.check_table import check_lines
from console.tui.figures import clock_span
from console.tui.glyphs import Glyphs
from console.tui.plan_lines import finding_lines, matrix_lines, memory_lines, rank_line
from console.tui.spans import Line, fit, fit_name, safe, width_of, wrap_spans
from console.tui.stop_lines import stopped_word

LEFTOVER = "leftover-container"
FOREIGN = "engine-running"  # of another's container: no boot of ours brings it about


def launch_lines(
    recipe: Recipe,
    plan: Plan | NightdeckError | None,
    changes: Sequence[str],
    width: int,
    glyphs: Glyphs,
    *,
    turns: bool,
    stops: BootState | None,
    overridden: Collection[str] = (),
    here: BootState | None = None,
    left: str = "",
    looking: str = "looking at the nodes …",
) -> list[Line]:
    """What a launch will do: findings first, then memory, then which rank goes where. here: what runs already and
    stands in its way; left: containers of ours that stand there without a boot that is known. looking: how far the
    nodes have been looked at."""
    out: list[Line] = [((f" {safe(recipe.title)}", "strong"),)]
    hint = "^r looks at the nodes again"
    out.append(((f" < > another recipe   {hint}" if turns else f" {hint}", "dim"),))
    if here is not None:
        sentence = f"{in_the_way(here)}: restart with this recipe, or stop it; nothing is launched beside it."
        sentence += " Its own ports and memory are left out below."
        sign = glyphs.fresh if here.phase is Phase.READY else glyphs.warn
        out += wrap_spans((f" {sign} ", "warn bold"), sentence, "warn bold", width, limit=3)
    elif left:
        sentence = f"{left}: stop them first; nothing is launched beside them, whatever is overridden."
        out += wrap_spans((f" {glyphs.warn} ", "warn bold"), sentence, "warn bold", width, limit=3)
    if stops is not None and not stops.phase.over:
        nodes = len({r.node for r in stops.ranks})
        out.append(((f" first boot {stops.number} is stopped on {nodes} nodes, each asked and verified", "warn"),))
    out += [(), ((" since its last boot  ", "title"), ("" if changes else "nothing changed", "dim"))]
    for change in changes:
        out += wrap_spans((f"  {glyphs.dot} ", "warn"), safe(change), "text", width, limit=2)
    out.append(())
    if plan is None:
        return [*out, ((f" {looking}", "active"),)]
    if isinstance(plan, NightdeckError):
        return [*out, *wrap_spans((f" {glyphs.failed} ", "bad"), safe(plan, limit=800), "bad", width, limit=8)]
    out.append(_verdict(plan, overridden, glyphs, else_="else " if here is not None or left else ""))
    out += check_lines(plan, width, glyphs, overridden)
    out.append(())
    out += finding_lines(plan.findings, width, glyphs, limit=2)
    out += matrix_lines(plan, width, glyphs)
    if bar := memory_lines(plan.memory, width, glyphs):
        out += [(), ((" memory of a node", "title"),), *bar]
    out += [
        (),
        ((f" {len(plan.ranks)} containers of {safe(plan.image)}, port {plan.port}", "title"),
         (f"   boot {plan.boot_number}, ready within {clock_span(plan.ready_timeout_s)}", "dim")),
        *(rank_line(rank) for rank in plan.ranks),
    ]  # fmt: skip
    return out


def in_the_way(boot: BootState) -> str:
    """`boot 11 (dsv41-flash-8x) is READY here`: what a launch would meet."""
    nodes = len({r.node for r in boot.ranks})
    what = f"boot {boot.number} ({safe(boot.recipe, limit=40)})"
    if boot.half_stopped:
        return f"{what} is not stopped on every node"
    if boot.phase is Phase.FAILED:
        return f"{what} has failed and still has containers here"
    word = boot.phase.value.replace("_", " ").upper()
    return f"{what} is {word} here, on {nodes} node{'' if nodes == 1 else 's'}"


def still_here(boot: BootState | None) -> BootState | None:
    """The boot, where containers of it run or may run."""
    if boot is None or (boot.phase is Phase.STOPPED and not boot.half_stopped):
        return None
    if boot.phase is Phase.FAILED and all(r.status in GONE or (r.status is None and r.reachable) for r in boot.ranks):
        return None
    return boot


def left_over(plan: object) -> str:
    """`a container of an earlier deployment stands on dgx3 (nd-old-b3-r5 …)`, by what the nodes said; empty where
    none does."""
    if not isinstance(plan, Plan):
        return ""
    found = [f for f in plan.findings if f.code == LEFTOVER]
    if not found:
        return ""
    nodes = list(dict.fromkeys(safe(f.node) for f in found if f.node))
    where = ", ".join(nodes[:4]) + (f" and {len(nodes) - 4} more" if nodes[4:] else "")
    return f"containers of an earlier deployment stand on {where}"


def without_its_own(plan: Plan, *, restart: bool) -> Plan:
    """The plan without what the boot that runs here brings about itself: that is told in one sentence. restart: all
    that its stop takes away, as it is stopped first."""
    gone = LIFTED_BY_A_STOP if restart else tuple(c for c in LIFTED_BY_A_STOP if c != FOREIGN)
    return replace(plan, findings=tuple(f for f in plan.findings if f.code not in gone))


def _verdict(plan: Plan, overridden: Collection[str], glyphs: Glyphs, *, else_: str = "") -> Line:
    """Whether it may run; what was overridden is written down with the boot."""
    codes = list(dict.fromkeys(f.code for f in plan.blocks))
    if not codes:
        return ((f" {glyphs.done} preflight: nothing {else_}blocks", "ok"),)
    left = [c for c in codes if c not in overridden]
    if not left:
        words = (
            f" {glyphs.warn} {len(codes)} block{'s' if len(codes) > 1 else ''} overridden by you: the journal keeps it"
        )
        return ((words, "warn bold"),)
    words = f" {glyphs.failed} blocked: {len(codes)} reasons" if len(codes) > 1 else f" {glyphs.failed} blocked"
    more = f", {len(codes) - len(left)} overridden" if len(left) < len(codes) else ""
    return ((f"{words}{more}", "bad bold"),)


def stop_question(boot: BootState, now: float, width: int, glyphs: Glyphs) -> list[Line]:
    """What a stop will do on which node."""
    text = "The head is stopped first, then the workers; every node is asked what is left, and the answer is shown."
    dark = list(dict.fromkeys(safe(r.node) for r in boot.ranks if not r.reachable))
    lost = f"{', '.join(dark)} {'does' if len(dark) == 1 else 'do'} not answer: what runs there is not known."
    out: list[Line] = [
        ((f" {safe(boot.title) or safe(boot.recipe)}  ", "strong"), phase_span(boot, glyphs)),
        ((f" launched {clock_span(now - boot.launched_at)} ago", "dim"),),
        (),
        *wrap_spans((" ", "text"), text, "text", width, limit=3),
        *(wrap_spans((f" {glyphs.warn} ", "warn bold"), lost, "warn", width, limit=2) if dark else ()),
        (),
        *state_lines(boot, glyphs),
    ]
    return out


def state_lines(boot: BootState, glyphs: Glyphs) -> list[Line]:
    """A line per container: rank, node, name, the engine's word."""
    out: list[Line] = []
    names = min(20, max((width_of(safe(r.node)) for r in boot.ranks), default=10))
    wide = max((len(stopped_word(r)[0]) for r in boot.ranks), default=10)
    for rank in boot.ranks:
        word, role = stopped_word(rank)
        sign = glyphs.lost if not rank.reachable else glyphs.fresh if rank.status == "running" else glyphs.waiting
        head = "head" if rank.node == boot.head_node else "    "
        out.append(
            (
                (f"  {rank.rank:>3} ", "strong"),
                (f"{fit_name(safe(rank.node), names)} {head} ", "text"),
                (f"{sign} {fit(word, wide)}", role),
                (f" {safe(rank.container)}", "dim"),
            )
        )
    return out
