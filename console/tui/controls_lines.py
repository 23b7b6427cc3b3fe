"""Who has the controls, in words: for the line under the header, the board's title, and the sheet that asks. Pure."""

from __future__ import annotations

from console.services.hub import ControlsView
from console.tui.glyphs import Glyphs
from console.tui.spans import Line, Span, safe, wrap_spans


def person(holder: str) -> str:
    """`ann@desk` of `ann@desk, launching glm since 02:58:11 UTC`."""
    return safe(holder, limit=200).partition(",")[0].strip() or "another console"


def holder_words(controls: ControlsView) -> str:
    """For the board's title: empty while nobody else has them."""
    if controls.state in ("other", "asking", "taken"):
        return f"controls: {safe(controls.holder, limit=80) or 'another console'}"
    return ""


def controls_alert(controls: ControlsView, key: str, glyphs: Glyphs) -> list[Span]:
    """What of the controls an operator has to know now; nothing while they are free, or ours and nobody asks."""
    who = safe(controls.holder, limit=100) or "another console"
    hint: Span = (f"  [{key}] ", "key")
    if controls.state == "taken":
        return [
            (f" {glyphs.failed} {person(controls.holder)} took the controls: this console only watches", "bad bold"),
            hint,
        ]
    if controls.state == "other":
        return [(f" {glyphs.warn} {who} has the controls", "warn bold"), hint, ("ask or take over ", "dim")]
    if controls.state == "asking":
        return [(f" {glyphs.waiting} {person(controls.holder)} was asked for the controls", "warn"), hint]
    if controls.state == "mine" and controls.asked_by:
        names = ", ".join(person(a) for a in controls.asked_by[:3])
        return [(f" {glyphs.warn} {names} asks for the controls", "warn bold"), hint, ("hands them over ", "dim")]
    return []


def controls_mark(controls: ControlsView) -> list[Span]:
    """For the header, where they are ours until we let go."""
    return [("   controls held", "ok")] if controls.state == "mine" and controls.lasting else []


def controls_lines(controls: ControlsView, wanted: str, width: int, glyphs: Glyphs) -> list[Line]:
    """The sheet: who has them, what that means here, and what each choice does. wanted: what the operator was about to
    do, empty when nothing."""
    who = safe(controls.holder, limit=200) or "a console that does not say who it is"
    head, role = {
        "free": (f"{glyphs.done} Nobody has the controls.", "ok"),
        "mine": (f"{glyphs.fresh} You have the controls.", "ok bold"),
        "other": (f"{glyphs.warn} {who}", "warn bold"),
        "asking": (f"{glyphs.waiting} You asked for them; they are with {who}", "warn bold"),
        "taken": (f"{glyphs.failed} {who} took them from you", "bad bold"),
    }.get(controls.state, (f"{glyphs.unknown} Not known yet: the nodes are being asked …", "active"))
    out: list[Line] = [*wrap_spans((" ", "text"), head, role, width, limit=3), ()]
    if wanted and controls.state in ("other", "asking", "taken"):
        out += wrap_spans(
            (" ", "text"), f"{wanted} needs them: nothing was started or stopped.", "text", width, limit=2
        )
    text = {
        "free": "Each launch and stop takes them for its own length. Held, they stay yours until you let them go, and "
        "other consoles only watch.",
        "mine": "Other consoles only watch. Handed over, they go to whoever asked first."
        if controls.lasting
        else "An action of this console has them, and lets them go when it ends.",
        "other": "Asking leaves a request that they see at once. Taking over ends their hold: what they do is cut off, "
        "and their console only watches.",
        "asking": "They come to you as soon as they are let go.",
        "taken": "Nothing can be changed from here until you hold them again.",
    }.get(controls.state, "")
    out += wrap_spans((" ", "text"), text, "text", width, limit=4)
    for asker in controls.asked_by[:6]:
        out.append(((f"  {glyphs.warn} {safe(asker, limit=120)} asks for them", "warn"),))
    if controls.why:
        out += [(), *wrap_spans((" ", "text"), safe(controls.why, limit=300), "dim", width, limit=3)]
    return out


def take_over_lines(holder: str, width: int) -> list[Line]:
    """The second question: it names who loses them, and what is cut off."""
    who = safe(holder, limit=200) or "a console that does not say who it is"
    text = (
        "Whatever they are doing stops half way: what they started keeps running or not as it stands, and is yours to "
        "look after. Their console is told who took the controls, and so is the boot's journal."
    )
    return [
        ((" You take the controls from", "text"),),
        *wrap_spans(("   ", "text"), who, "bad bold", width, limit=3),
        (),
        *wrap_spans((" ", "text"), text, "text", width, limit=4),
    ]
