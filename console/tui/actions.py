"""The one registry of what an operator can do: keys, footer, help and palette are all read from it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from textual.binding import Binding

from console.boot.state import BootState, Phase
from console.services.hub import Snapshot

Possible = Callable[[Snapshot], bool]
LIVE_AREAS: Final = ("Deployment", "Recipe", "Boots")


def always(_snapshot: Snapshot) -> bool:
    return True


def has_boot(snapshot: Snapshot) -> bool:
    return snapshot.boot is not None


def can_launch(snapshot: Snapshot) -> bool:
    return bool(snapshot.recipes) and not snapshot.job


def can_stop(snapshot: Snapshot) -> bool:
    """Something runs, or a launch is under way, or a failed boot left containers to clean up."""
    boot = snapshot.boot
    return bool(snapshot.job) or bool(snapshot.boots) or (boot is not None and not is_gone(boot))


def is_gone(boot: BootState) -> bool:
    """True when every node answered that nothing of it is left."""
    return boot.phase == Phase.STOPPED and boot.stop_result not in ("partly", "failed")


def is_booting(snapshot: Snapshot) -> bool:
    boot = snapshot.boot
    return boot is not None and boot.phase in (Phase.STARTING, Phase.BOOTING, Phase.STALLED)


def is_up(snapshot: Snapshot) -> bool:
    boot = snapshot.boot
    return boot is not None and boot.phase in (Phase.READY, Phase.DEGRADED, Phase.SERVING_BAD)


def is_asked(snapshot: Snapshot) -> bool:
    return snapshot.boot is not None and bool(snapshot.boot.asks)


def can_have_controls(snapshot: Snapshot) -> bool:
    """A console that only watches by its operator's word has nothing to ask for."""
    return not snapshot.read_only or snapshot.controls.state in ("taken", "asking")


def has_recipes(snapshot: Snapshot) -> bool:
    return bool(snapshot.recipes)


@dataclass(frozen=True, slots=True)
class Action:
    """One thing to do. id: stable, what a keymap names. keys: defaults, comma-separated as Textual reads them.
    run: Textual's action on the main screen. footer: place in the key bar, None when not there.
    changes: it changes a node, a deployment or its record, so a read-only console does not have it.
    where: `live`, `replay` or empty for both; what launches, plans or lists is live by its area.
    pair: the action that does the opposite: in the key bar both stand as one."""

    id: str
    keys: str
    run: str
    word: str
    sentence: str
    area: str
    footer: int | None = None
    changes: bool = False
    possible: Possible = always
    palette: bool = True
    where: str = ""
    pair: str = ""

    def is_of(self, snapshot: Snapshot) -> bool:
        """Whether this screen has the action at all: a read-only one, a replay and the present differ in that."""
        if self.changes and snapshot.read_only:
            return False
        return not self.place or (self.place == "replay") == (snapshot.replay is not None)

    @property
    def place(self) -> str:
        """`live`, `replay`, or empty for both."""
        return self.where or ("live" if self.area in LIVE_AREAS else "")


ACTIONS: Final[tuple[Action, ...]] = (
    Action("deployment.launch", "l", "launch", "launch", "Show what a launch will do on which node, and ask",
           "Deployment", 1, True, can_launch),
    Action("deployment.stop", "s", "stop", "stop", "Stop the deployment on show, or abort a launch; asks first",
           "Deployment", 2, True, can_stop),
    Action("deployment.restart", "r", "restart", "restart", "Stop, launch the edited recipe; shows what changed",
           "Deployment", 3, True, has_boot),
    Action("deployment.more-time", "plus", "more_time", "+15 min", "Give the boot 15 minutes more before its deadline",
           "Deployment", None, True, is_booting),
    Action("deployment.smoke", "v", "smoke", "verify", "Send the API a real request and look at the answer",
           "Deployment", None, True, is_up),
    Action("deployment.answer", "a", "answer", "answer", "Answer what the console asks about this boot",
           "Deployment", None, True, is_asked),
    Action("deployment.controls", "C", "controls", "controls", "Who has the controls: ask for them, take them, let go",
           "Deployment", None, possible=can_have_controls),
    Action("recipe.plan", "p", "plan", "plan", "Render the plan with all findings; nothing runs", "Recipe", 4,
           possible=has_recipes),
    Action("recipe.edit", "e", "edit", "edit", "Open the recipe in $EDITOR, read it again when saved", "Recipe", 9,
           possible=has_recipes),
    Action("recipe.difference", "d", "difference", "what changed", "What changed in the recipe since its last boot",
           "Recipe", 10, possible=has_recipes),
    Action("recipe.reload", "ctrl+r", "reload", "reload", "Read all recipe files again", "Recipe"),
    Action("boot.note", "n", "note", "note", "Write a note to this boot", "Deployment", 11, True, has_boot),
    Action("find", "slash", "find", "search", "Search: the log, the recipes or the nodes, as the pane says", "Look", 5),
    Action("filter", "f", "filter", "filter", "Filter the log by rank, level, pattern; the nodes by word", "Look", 8),
    Action("replay.pause", "space", "replay_pause", "pause", "Let time stand still, or go on", "Replay", 1,
           where="replay"),
    Action("replay.faster", "plus", "replay_speed(1)", "speed", "Let time pass faster", "Replay", 3, where="replay",
           pair="replay.slower"),
    Action("replay.slower", "minus", "replay_speed(-1)", "slower", "Let time pass slower", "Replay", where="replay"),
    Action("replay.next-event", "greater_than_sign", "replay_mark(1, 'event')", "event",
           "To the next thing that happened", "Replay", 2, where="replay", pair="replay.previous-event"),
    Action("replay.previous-event", "less_than_sign", "replay_mark(-1, 'event')", "event before",
           "To the thing that happened before", "Replay", where="replay"),
    Action("replay.next-stage", "right_curly_bracket", "replay_mark(1, 'stage')", "stage",
           "To where the first rank entered its next stage", "Replay", 3, where="replay", pair="replay.previous-stage"),
    Action("replay.previous-stage", "left_curly_bracket", "replay_mark(-1, 'stage')", "stage before",
           "To where the stage before began", "Replay", where="replay"),
    Action("replay.memory", "m", "replay_mark(0, 'memory')", "lowest",
           "To the moment with the least memory on any node", "Replay", 4, where="replay"),
    Action("replay.forward", "full_stop", "replay_seek(10)", "10 s", "Ten seconds on", "Replay", 4, where="replay",
           pair="replay.back"),
    Action("replay.back", "comma", "replay_seek(-10)", "10 s back", "Ten seconds back", "Replay", where="replay"),
    Action("replay.minute-forward", "right_parenthesis", "replay_seek(60)", "1 min on", "A minute on", "Replay",
           where="replay"),
    Action("replay.minute-back", "left_parenthesis", "replay_seek(-60)", "1 min back", "A minute back", "Replay",
           where="replay"),
    Action("replay.start", "backspace", "replay_start", "from the start", "From the start again", "Replay",
           where="replay"),
    Action("replay.leave", "escape", "replay_leave", "leave", "Back to the present, or to the shell", "Replay", 1,
           where="replay"),
    Action("logs.follow", "space", "follow", "follow", "Follow the log, or pause where you are", "Logs", 7,
           where="live"),
    Action("logs.end", "end,G", "log_end", "to now", "Jump to the newest line and follow", "Logs"),
    Action("logs.next-match", "right_square_bracket", "match(1)", "next match", "Next match of the search; n too",
           "Logs"),
    Action("logs.previous-match", "left_square_bracket", "match(-1)", "previous match", "The match before; N too",
           "Logs"),
    Action("logs.next-error", "x", "log_error(1)", "next error", "Next line with an error", "Logs"),
    Action("logs.previous-error", "X", "log_error(-1)", "previous error", "Previous line with an error", "Logs"),
    Action("logs.next-stage", "t", "log_stage(1)", "next stage", "Next line that opened a stage", "Logs"),
    Action("logs.previous-stage", "T", "log_stage(-1)", "previous stage", "Previous line that opened a stage", "Logs"),
    Action("logs.wrap", "w", "wrap", "wrap", "Wrap long lines, or cut them at the edge", "Logs"),
    Action("logs.copy", "y", "copy", "copy", "Copy the lines on screen: clipboard and a file", "Logs"),
    Action("logs.save", "ctrl+s", "save", "save", "Save the log that is held to a file", "Logs"),
    Action("logs.all-ranks", "0", "rank(-1)", "all ranks", "Merged log of all ranks", "Logs"),
    *(
        Action(f"logs.rank-{n - 1}", str(n), f"rank({n - 1})", f"rank {n - 1}", f"Log of rank {n - 1} alone", "Logs",
               palette=False)
        for n in range(1, 9)
    ),
    Action("cluster.sort", "o", "sort", "sort", "Sort the nodes by the next column", "Look"),
    Action("cluster.node", "i", "node_page", "node", "A node in full, with charts; a boot as text", "Look"),
    Action("alarms.list", "A", "alarms", "alarms", "What is wrong now and what was; take note of it, mute it", "Look"),
    Action("boots.compare", "c", "compare", "compare", "Mark a boot; the second mark compares them in full", "Boots"),
    Action("boots.replay", "R", "replay_boot", "replay", "The boot under the cursor as it was; enter too", "Boots"),
    Action("view.next-pane", "tab", "pane(1)", "pane", "Next pane", "Look", 6, palette=False),
    Action("view.previous-pane", "shift+tab", "pane(-1)", "previous pane", "Previous pane", "Look", palette=False),
    Action("view.zoom", "z", "zoom", "zoom", "This pane alone on the screen, or all of them again", "Look"),
    Action("console.help", "question_mark", "help", "help", "All keys and signs", "Console", 0),
    Action("console.quit", "q", "quit_console", "quit", "Leave the console; a deployment keeps running", "Console", 12),
)  # fmt: skip

BY_RUN: Final[Mapping[str, Action]] = {action.run.partition("(")[0]: action for action in ACTIONS}
BY_ID: Final[Mapping[str, Action]] = {action.id: action for action in ACTIONS}
SIGNS: Final = {
    "slash": "/", "question_mark": "?", "plus": "+", "right_square_bracket": "]", "left_square_bracket": "[",
    "shift+tab": "S-tab", "ctrl+p": "^p", "ctrl+r": "^r", "ctrl+s": "^s", "minus": "-", "greater_than_sign": ">",
    "less_than_sign": "<", "right_curly_bracket": "}", "left_curly_bracket": "{", "full_stop": ".", "comma": ",",
    "right_parenthesis": ")", "left_parenthesis": "(", "escape": "esc", "backspace": "bksp",
}  # fmt: skip


def bindings() -> list[Binding]:
    """The registry as bindings; each has an id, so a keymap can move it."""
    return [
        Binding(a.keys, a.run, a.word, show=False, id=a.id, tooltip=a.sentence, priority=a.id.startswith("view."))
        for a in ACTIONS
    ]


def key_sign(action: Action, keymap: Mapping[str, str] | None = None) -> str:
    """How the first key of an action is written: `/`, `?`, `^s`, `l`."""
    key = ((keymap or {}).get(action.id) or action.keys).split(",")[0]
    return SIGNS.get(key, key.replace("ctrl+", "^"))


def key_signs(keymap: Mapping[str, str] | None = None) -> dict[str, str]:
    return {action.id: key_sign(action, keymap) for action in ACTIONS}


def offered(snapshot: Snapshot) -> Sequence[Action]:
    """What can be done now: the key bar and the palette show nothing else."""
    return [a for a in ACTIONS if a.is_of(snapshot) and a.possible(snapshot)]


def bar_sign(action: Action, keymap: Mapping[str, str] | None = None) -> str:
    """As the key bar has it: both keys of a pair, the one that goes back first."""
    other = BY_ID.get(action.pair)
    return (key_sign(other, keymap) if other is not None else "") + key_sign(action, keymap)


def docs_table() -> str:
    """The registry as a Markdown table, for the manual."""
    rows = ["| key | id | what it does |", "|---|---|---|"]
    rows += [f"| `{key_sign(a)}` | `{a.id}` | {a.sentence} |" for a in ACTIONS]
    return "\n".join(rows)
