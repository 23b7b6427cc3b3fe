"""What the boot pane says besides the board: the clock line, a failure, a stop, the steps of a launch. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from console.boot.events import Cause
from console.boot.figures import elapsed_seconds, elapsed_text, ready_by, ready_seconds, ready_text, speed_text
from console.boot.state import GONE, STATS_FRESH_S, BootState, Phase, Step
from console.boot.words import expected_now, out_of_sight, phase_word
from console.services.hub import BootSummary
from console.tui.figures import age, clock_span, gib, hhmm, hhmmss, span
from console.tui.glyphs import Glyphs, bar, state_sign
from console.tui.spans import Line, Span, clip, fit, fit_name, line_width, safe, width_of, wrap_spans

LABEL = 12
OTHERS_FROM = 9  # lines; below that the evidence needs the room
PHASE_ROLES = {
    Phase.STARTING: "active",
    Phase.BOOTING: "active",
    Phase.READY: "ok",
    Phase.DEGRADED: "warn",
    Phase.SERVING_BAD: "bad",
    Phase.STALLED: "warn",
    Phase.FAILED: "bad",
    Phase.STOPPING: "warn",
    Phase.STOPPED: "idle",
}


def phase_span(boot: BootState, glyphs: Glyphs) -> Span:
    """Sign and word of a deployment's state."""
    signs = {
        Phase.STARTING: glyphs.active,
        Phase.BOOTING: glyphs.active,
        Phase.READY: glyphs.fresh,
        Phase.DEGRADED: glyphs.warn,
        Phase.SERVING_BAD: glyphs.failed,
        Phase.STALLED: glyphs.pause,
        Phase.FAILED: glyphs.failed,
        Phase.STOPPING: glyphs.warn,
        Phase.STOPPED: glyphs.waiting,
    }
    if boot.half_stopped:
        return f"{glyphs.warn} {phase_word(boot)}", "bad bold"
    return f"{signs[boot.phase]} {phase_word(boot)}", f"{PHASE_ROLES[boot.phase]} bold"


def frontier(boot: BootState) -> str:
    """The stage where most ranks are, with the least progress: `weights 38 %`."""
    stages = [r.stage for r in boot.ranks if r.stage is not None]
    if not stages:
        return ""
    most = max(set(stages), key=stages.count)
    progress = [r.progress for r in boot.ranks if r.stage == most and r.progress is not None]
    return most.word + (f" {min(progress) * 100:.0f} %" if progress else "")


def expected(boot: BootState) -> str:
    """When it will be ready; or why that is not known."""
    return safe(expected_now(boot, hhmm))


def clock_line(boot: BootState, now: float, width: int, glyphs: Glyphs) -> Line:
    """Elapsed and deadline as a bar, the expected time, and what the API says."""
    elapsed = elapsed_seconds(boot, now)
    spans: list[Span] = [(" ", "text"), phase_span(boot, glyphs), ("  ", "text")]
    if boot.phase in (Phase.READY, Phase.DEGRADED, Phase.SERVING_BAD):
        # What is wrong comes first: on a narrow screen the figures after it are cut, and it is not.
        if unseen := out_of_sight(boot):
            spans.append((f"{glyphs.lost} {safe(unseen)}   ", "warn bold" if boot.unproven else "warn"))
        if boot.smoke_why:
            spans.append((f"{safe(boot.smoke_why)}   ", "bad"))
        took = "" if boot.ready_at is None else f"ready in {ready_text(ready_seconds(boot), ready_by(boot))}"
        spans += [
            (took, "strong"),
            (f"   up {clock_span(elapsed)}", "text"),
            (f"   :{boot.port} {safe(boot.api)}", "dim"),
        ]
        if boot.tokens_per_s is not None:
            spans.append((f"   {speed_text(boot.tokens_per_s)} tok/s", "strong"))
        if boot.first_token_s is not None:
            spans.append((f"   first token {boot.first_token_s:.2f} s", "dim"))
        spans += _stats(boot, now)
        if boot.smoke_text and not boot.smoke_why:
            spans += [(f"   {safe(note)}", "warn") for note in boot.smoke_notes]
            spans.append((f"   it said: {safe(boot.smoke_text, limit=120)}", "dim"))
        return clip(spans, width)
    if boot.phase.over or boot.phase is Phase.STOPPING:
        when = "" if boot.ended_at is None else f" at {hhmmss(boot.ended_at)}"
        spans += [(f"after {elapsed_text(boot, now)}{when}", "text")]
        return clip(spans, width)
    share = elapsed / boot.deadline_s if boot.deadline_s > 0 else 1.0
    full, empty = bar(glyphs, share, 24 if width >= 120 else 10)
    late = share >= 1.0
    spans += [
        (clock_span(elapsed) + " ", "bad bold" if late else "strong"),
        (full, "bad" if late else "warn" if share > 0.85 else "active"),
        (empty, "grid"),
        (f" of {clock_span(boot.deadline_s)}", "text"),
    ]
    if late:
        spans.append((f"  {clock_span(elapsed - boot.deadline_s)} past the deadline", "bad bold"))
    if words := expected(boot):
        spans.append((f"   {words}", "strong"))
    if boot.stall_signs:
        spans.append((f"   {glyphs.pause} nothing moves: {safe(', '.join(boot.stall_signs))}", "warn bold"))
    return clip(spans, width)


def advice_lines(boot: BootState, width: int, keys: Mapping[str, str]) -> list[Line]:
    """While a deployment is up or boots and is not well: what to do, by key; none where nothing is the matter. One
    line where there is room, else the keys in a second one."""
    said = {
        Phase.SERVING_BAD: ("smoke", "asks it again"),
        Phase.STALLED: ("more-time", "gives it 15 min more"),
        Phase.DEGRADED: ("smoke", "asks it again"),
    }.get(boot.phase)
    if said is None:
        return []
    ended = next((r for r in boot.ranks if r.status in GONE), None)
    cause = boot.cause
    if ended is not None:
        text = f"rank {ended.rank} on {safe(ended.node)} has ended and does not come back"
    elif cause is not None and cause.action:
        text = safe(cause.action, limit=200)
    elif boot.phase is Phase.STALLED:
        text = "look at the ranks' last lines"
    elif boot.unproven:
        text = "its next answer shows whether it works"
    else:
        text = "see what changed since it served well"
    offers = [said] if ended is None else []
    offers += [("restart", "restarts"), ("stop", "stops")]
    hint = "  ".join(f"[{keys[k]}] {word}" for name, word in offers if keys.get(k := f"deployment.{name}"))
    lead = _label("what now")
    if LABEL + 4 + width_of(text) + width_of(hint) <= width:
        return [clip((lead, (text + "   ", "ok"), (hint, "key")), width)]
    keyed: list[Line] = [clip((_label(""), (hint, "key")), width)] if hint else []
    return [*(clip(line, width) for line in wrap_spans(lead, text, "ok", width - 1, limit=1)), *keyed]


def _stats(boot: BootState, now: float) -> list[Span]:
    """What the engine says of its service; what it no longer says, with its age and the reason."""
    words = {"running": "running", "waiting": "waiting", "kv_usage": "KV", "acceptance_length": "accepted"}
    out = []
    for key, word in words.items():
        value = boot.stats.get(key)
        if value is not None:
            out.append(f"{word} {value * 100:.0f} %" if key == "kv_usage" else f"{word} {value:g}")
    text = "   " + "  ".join(out)
    old = None if boot.stats_at is None else now - boot.stats_at
    if old is not None and old <= STATS_FRESH_S:
        return [(text, "dim")]
    why = f": {safe(boot.stats_why, limit=120)}" if boot.stats_why else ""
    if not out or old is None:
        return [(f"   no figures of the engine{why}", "dim")] if why else []
    return [(text, "dim"), (f"  {age(old)} old{why}", "warn")]


def failure_lines(boot: BootState, width: int, height: int, glyphs: Glyphs, keys: Mapping[str, str]) -> list[Line]:
    """Who, when and where, why, evidence, what now, victims: all of it within `height` lines."""
    cause = boot.cause
    rank = cause.rank if cause is not None and cause.rank is not None else boot.failed_rank
    node = cause.node if cause is not None and cause.node is not None else boot.failed_node
    who = f"rank {rank}, {safe(node or '?')}" if rank is not None else safe(node) if node else "the launch itself"
    if cause is not None and len(cause.ranks) > 1:
        who = safe(cause.who)
    victims = _victims(boot, cause, width - LABEL - 2)
    evidence = cause.evidence if cause is not None else ()
    # What is left after one line each for who, when, victims and two for what now goes to why and the evidence.
    spare = max(3, height - 5)
    why_rows = 3 if spare >= 6 else 2 if spare >= 4 else 1
    state = next((r for r in boot.ranks if r.rank == rank), None)
    tail = ""
    if state is not None and state.exit_code is not None:
        tail = f"   container exited {state.exit_code}" + (", OOM-killed" if state.oom_killed else "")
    lines: list[Line] = [
        (_label("who"), (who, "bad bold"), (tail, "dim")),
        (_label("when, where"), (_when(boot, cause), "text")),
    ]
    why = cause.sentence if cause is not None else boot.failed_why or "no cause found yet"
    lines += wrap_spans(_label("why"), safe(why, limit=600), "strong", width - 1, limit=why_rows)
    action = cause.action if cause is not None and cause.action else "read the log of the rank above"
    now_text = f"{safe(action, limit=300)}"
    now_rows = wrap_spans(_label("what now"), now_text, "ok", width - 1, limit=4 if spare >= 10 else 2)
    hint = "   ".join(f"[{keys[k]}] {word}" for k, word in _offers(boot) if keys.get(k))
    last: list[Line] = []
    if victims:
        last.append((_label("victims"), (safe(victims), "dim")))
    fell = cause.victims if cause is not None else ()
    others = [o for o in boot.others if o.rank not in fell]  # what a victim says of its own end is no cause beside it
    if others and height >= OTHERS_FROM:
        told = "; ".join(_other(o) for o in others[:2]) + (f" +{len(others) - 2}" if others[2:] else "")
        last.append((_label("also"), (told, "dim")))
    if hint:
        last.append((_label(""), (hint, "key")))
    room = max(1, height - len(lines) - len(now_rows) - len(last))
    shown = [safe(e, limit=600) for e in evidence] or ["no line: the states and the launch's output are the evidence"]
    where = f"{safe(cause.file)}:{cause.line}" if cause is not None and cause.file and cause.line else ""
    rows: list[Line] = []
    for i, text in enumerate(shown):
        left = room - len(rows)
        if left <= 0:
            break
        rows += wrap_spans(_label("evidence" if i == 0 else ""), text, "log-error", width - 1, limit=min(left, 3))
    if where and len(rows) < room:
        rows.append((_label(""), (where, "dim")))
    lines += rows[:room]
    lines += now_rows + last
    return [clip(line, width) for line in lines]


def _offers(boot: BootState) -> Sequence[tuple[str, str]]:
    if "launch_failed" in boot.asks:
        return (("deployment.answer", "keep or roll back"), ("recipe.edit", "edit"), ("deployment.restart", "restart"))
    return (("recipe.edit", "edit the recipe"), ("deployment.restart", "restart"), ("deployment.stop", "clean up"))


def _when(boot: BootState, cause: Cause | None) -> str:
    at = cause.at if cause is not None and cause.at is not None else boot.ended_at
    stage = cause.stage if cause is not None and cause.stage else None
    if stage is None:
        rank = next((r for r in boot.ranks if r.rank == boot.failed_rank), None)
        stage = rank.stage.word if rank is not None and rank.stage is not None else "before its first stage"
    if at is None:
        return safe(stage)
    if boot.ended_at is None:
        return f"{safe(stage)}, at {hhmmss(at)}"
    # The cause is older than the end that it brought, and commands say "failed after" of the end.
    return f"{safe(stage)}, at {hhmmss(at)}; failed after {elapsed_text(boot, boot.ended_at)}"


def _victims(boot: BootState, cause: Cause | None, width: int) -> str:
    ranks = cause.victims if cause is not None else ()
    if not ranks:
        return ""
    names = {r.rank: r.node for r in boot.ranks}
    named = ", ".join(f"rank {n} {names.get(n, '?')}" for n in ranks) + " fell because of it"
    if len(named) <= width:
        return named
    return f"{len(ranks)} fell because of it: ranks " + ", ".join(str(n) for n in ranks)


def _other(cause: Cause) -> str:
    who = f"rank {cause.rank}: " if cause.rank is not None else ""
    return f"{who}{safe(cause.sentence, limit=120)}"


def _label(word: str) -> Span:
    return fit(f" {word}", LABEL + 1), "head"


def step_lines(steps: Sequence[Step], now: float, width: int, glyphs: Glyphs) -> list[Line]:
    """The steps of a launch or stop: one sign per node, then words for the nodes that are not done."""
    looks = {
        "running": (glyphs.active, "active"),
        "done": (glyphs.done, "done"),
        "failed": (glyphs.failed, "failed"),
        "unknown": (glyphs.unknown, "warn"),
    }
    lines: list[Line] = []
    for step in steps:
        done = sum(1 for s in step.states.values() if s == "done")
        total = len(step.states)
        running = any(s == "running" for s in step.states.values())
        spans: list[Span] = [
            (f" {fit(safe(step.name, limit=30), 16)} ", "strong" if running else "text"),
            (f"{done:>3}/{total:<3} ", "ok" if done == total else "active"),
        ]
        spans += [looks.get(s, (glyphs.unknown, "warn")) for s in list(step.states.values())[:32]]
        if running:
            spans.append((f"  {span(now - step.started_at)}", "dim"))
        for state in ("failed", "unknown", "running"):
            for node, s in step.states.items():
                if s == state and line_width(spans) < width - 12:
                    detail = safe(step.details.get(node, ""), limit=80)
                    spans.append((f"   {safe(node)} {detail or state}", looks[state][1]))
        if done == total and (words := {d for d in step.details.values() if d}) and len(words) == 1:
            spans.append((f"   {safe(next(iter(words)), limit=80)}", "dim"))
        lines.append(clip(spans, width))
    return lines


def idle_lines(
    boots: Sequence[BootSummary],
    width: int,
    glyphs: Glyphs,
    launch_key: str,
    looked: bool = True,
    *,
    then: bool = False,
    job: str = "",
) -> list[Line]:
    """Nothing runs: what the last boots came to, and the key that begins the next. looked: whether the nodes were asked
    what runs yet. then: a replay says so. job: what the console does now, which may bring a boot in a moment."""
    if then:
        return [((" Nothing runs yet at this moment of the recording.", "dim"),)]
    first: Line = (
        (" Nothing runs on this cluster.", "strong"),
        (f"   [{launch_key}] launch" if launch_key else "", "key"),
    )
    if not looked:
        first = ((" The nodes are being asked what runs …", "active"),)
    if job:
        first = ((f" {glyphs.active} {safe(job)} …", "active bold"),)
    lines: list[Line] = [
        first,
        ((" ", "text"),),
    ]
    for boot in boots[:8]:
        sign, role = state_sign(boot.state, glyphs)
        took = (
            f"ready in {ready_text(boot.ready_s, boot.ready_by)}"
            if boot.ready_s is not None
            else safe(boot.cause) or boot.state
        )
        mark = "*" if boot.unseen else ""
        low = f"lowest free {gib(boot.min_available_bytes)}{mark} GiB" if boot.min_available_bytes is not None else ""
        lines.append(
            (
                (f"  {boot.number:>4}  ", "dim"),
                (f"{sign} ", role),
                (fit_name(safe(boot.recipe), 28 if width >= 120 else 22) + "  ", "text"),
                (f"{hhmm(boot.started_at)}  ", "dim"),
                (f"{took}   {low}", "bad" if role == "bad" else "text"),
            )
        )
    return [clip(line, width) for line in lines]
