"""The one door for the faces: a snapshot to draw, actions to ask for, log lines to read."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from console.base.absent import Absent
from console.base.findings import Finding

# Types alone: whoever needs a row of the ledger loads no telemetry.
if TYPE_CHECKING:
    from console.base.theme import ThemeColours
    from console.boot.compare import Comparison
    from console.boot.events import Event
    from console.boot.state import BootState
    from console.cluster.model import Cluster, Node
    from console.plan.model import Plan
    from console.recipe.model import Recipe, SyncImage
    from console.services.helpers import Helper
    from console.services.image_sync import NodeImage
    from console.services.images import Image
    from console.services.measure import MeasureSpec
    from console.services.page_cache import Dropped
    from console.services.replay_api import ReplayApi
    from console.services.replay_marks import Replaying
    from console.telemetry.alarms import Alarm
    from console.telemetry.sample import Sample
    from console.telemetry.trend import Lowest


@dataclass(frozen=True, slots=True)
class NodeView:
    """A node as it is known by now. state: `fresh`, `late`, `lost` by the age of the last sample; `waiting` before the
    first. age_s: seconds since the last sample, Absent before the first. sample: the last one, kept when old.
    trouble: transport's word when the connection is not up, `why` the sentence, `remedy` what helps.
    rank: of the current deployment, None when the node has none."""

    node: Node
    state: str
    age_s: float | Absent
    sample: Sample | Absent
    trouble: str = ""
    why: str = ""
    remedy: str = ""
    rank: int | None = None


@dataclass(frozen=True, slots=True)
class RecipeProblem:
    """A file that could not be read: shown beside the good ones."""

    file: str
    message: str
    line: int | None = None
    column: int | None = None
    key: str = ""


@dataclass(frozen=True, slots=True)
class Notice:
    """Something that the operator should see once: severity is `info`, `warn` or `error`; seq grows by one."""

    seq: int
    at: float
    severity: str
    text: str


@dataclass(frozen=True, slots=True)
class LogLine:
    """One clean line of a rank's log. seq: position in the merged store, ever growing; index: 0-based line number in
    the rank's own log; at: epoch s (docker's time stamp where there is one, else when it came). level may be ''."""

    seq: int
    rank: int
    node: str
    index: int
    at: float
    level: str
    process: str
    text: str


@dataclass(frozen=True, slots=True)
class LogBatch:
    """Lines from the store. lost: how many older lines asked for are no longer held in memory."""

    lines: tuple[LogLine, ...]
    next_seq: int
    lost: int = 0


@dataclass(frozen=True, slots=True)
class BootSummary:
    """A row of the ledger, newest first in lists. ready_by: see `console.boot.figures`. unseen: what the lowest memory
    leaves out, in words, "" where a console looked all the time."""

    id: str
    number: int
    recipe: str
    started_at: float
    state: str
    changed: tuple[str, ...] = ()
    cause: str = ""
    ready_s: float | None = None
    stages: Mapping[str, float] = field(default_factory=dict)
    min_available_bytes: int | None = None
    tokens_per_s: float | None = None
    note: str = ""
    starred: bool = False
    cause_class: str = ""
    smoke_text: str = ""
    min_available_by_node: Mapping[str, int] = field(default_factory=dict)
    ready_by: str = ""
    unseen: str = ""


@dataclass(frozen=True, slots=True)
class ControlsView:
    """Who may change the nodes, as far as this console knows.

    state: `unknown` (not looked yet), `free`, `mine`, `other`, `asking` (we asked the holder and wait), or `taken`:
    another took them from us, and this console only watches until it holds them again. holder: whose they are, as
    `ann@desk, launching glm since 02:58:11 UTC`; "" when free or unknown. asked_by: who asks us for them while they
    are ours. lasting: held until they are released, not only for the action under way. at: when this was seen, epoch
    s, None before the first look. why: what keeps us from knowing, or from holding them on every node."""

    state: str = "unknown"
    holder: str = ""
    asked_by: tuple[str, ...] = ()
    lasting: bool = False
    at: float | None = None
    why: str = ""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Everything that a face draws; equal versions are equal pictures. boot: the deployment on show (the newest live
    one, else the last that ended in this session). looked: False until a node was asked what runs: until then no boot
    means nothing. boots: all live ones. job: what the console does now ("launching glm-5-8x"), empty when idle."""

    version: int
    at: float
    cluster: Cluster
    nodes: tuple[NodeView, ...]
    boot: BootState | None
    boots: tuple[BootState, ...]
    recipes: tuple[Recipe, ...]
    problems: tuple[RecipeProblem, ...]
    notices: tuple[Notice, ...] = ()
    job: str = ""
    read_only: bool = False
    alarms: tuple[Alarm, ...] = ()  # newest first, those that are over too
    lowest: Lowest | None = None  # the node that has the least memory, or runs out of it first
    replay: Replaying | None = None  # where this is no present but a recording: what every face says then
    controls: ControlsView = ControlsView()
    looked: bool = True
    looking: tuple[int, int] | None = None  # while nodes are asked for a plan: answered, of how many


class HubApi(Protocol):
    """What a face may ask. Every action returns when it is done and raises NightdeckError in the operator's words;
    cancelling the awaiting task aborts the action and cleans up. Launching never ties the deployment to the console."""

    @property
    def read_only(self) -> bool: ...

    @property
    def by(self) -> str:
        """Who this console is to others: `ann@desk`."""

    def snapshot(self) -> Snapshot: ...

    def subscribe(self, changed: Callable[[], None]) -> Callable[[], None]:
        """`changed` is called in the loop after each change (it must be cheap); returns what ends it."""

    def now(self) -> float:
        """Epoch seconds by the hub's clock: ages and countdowns are drawn against it."""

    def log(self, since_seq: int, *, limit: int = 5000) -> LogBatch:
        """Merged lines of the deployment on show with seq >= since_seq, oldest first."""

    def series(self, node: str, metric: str, *, seconds: float, points: int) -> Sequence[float | None]:
        """History for a chart or sparkline, oldest first, exactly `points` values, None where there is a gap.
        Metrics: mem_used, mem_available, gpu_util, gpu_power, gpu_temp, gpu_clock, net_rx, net_tx, load."""
        ...

    async def start(self) -> None:
        """Connect, find what runs, begin to watch. Returns as soon as that is under way."""

    async def close(self) -> None:
        """Stop watching; deployments keep running."""

    async def settled(self, *, timeout: float) -> None:
        """Wait until every node gave a sample or a reason, and every live deployment's logs were read to their end.
        Returns at the limit too: what is missing is then shown as unknown."""
        ...

    def listen(self, heard: Callable[[str, Event], None]) -> Callable[[], None]:
        """`heard(deployment, event)` for each event from now on; returns what ends it."""

    def reload_recipes(self) -> None: ...

    async def plan(
        self,
        recipe: str,
        *,
        nodes: int | None = None,
        head: str | None = None,
        ask_nodes: bool = True,
        fresh: bool = False,
        sync_image: SyncImage | None = None,
    ) -> Plan:
        """The rendered plan with all findings (lint, preflight) and the memory budget; nothing runs.

        ask_nodes: gather facts over SSH first; without, what only the nodes know stays open and is said to be.
        fresh: ask them again, whatever is remembered. sync_image: as of `launch`."""
        ...

    async def launch(
        self,
        recipe: str,
        *,
        nodes: int | None = None,
        head: str | None = None,
        override: Sequence[str] = (),
        keep_on_failure: bool = True,
        drop_caches: bool = False,
        sync_image: SyncImage | None = None,
        take_over: bool = False,
    ) -> BootState:
        """Launch; returns when every container was started (or raises). Watching goes on by itself.

        take_over: take the controls from whoever holds them first (also of `stop` and `restart`).

        drop_caches: give the page cache back first (a recipe may ask for it too). sync_image: which
        nodes get the image first, instead of what the recipe says."""
        ...

    async def preflight(
        self, recipe: str, *, nodes: int | None = None, head: str | None = None, deep: bool = False
    ) -> Plan:
        """The plan with findings and matrix, asked anew. deep: the image's own --help is asked too, and
        each GPU is loaded for a few seconds, where nothing else works on the nodes."""
        ...

    async def sync_image(
        self,
        name: str,
        *,
        nodes: Sequence[str] | None = None,
        source: str | None = None,
        direct: bool = True,
        told: Callable[[NodeImage], None] = ...,
    ) -> Mapping[str, NodeImage]:
        """A recipe's image (or one by reference) on all nodes; `told` hears every change. Raises NightdeckError where
        no node has it."""
        ...

    async def build_image(
        self, name: str, *, node: str | None = None, said: Callable[[str], None] = ...
    ) -> tuple[str, Image]:
        """Build a recipe's image on a node (the first): the node and what came of it. `said` hears the build's log."""

    async def drop_caches(self, name: str | None = None) -> Mapping[str, Dropped]: ...

    async def stop(
        self,
        deployment: str | None = None,
        *,
        grace_s: float = 30.0,
        take_over: bool = False,
        discard_logs: bool = False,
    ) -> Mapping[str, tuple[str, str]]:
        """Stop a deployment (the only live one by default; `*`: everything of ours): node -> (result, detail).

        A container whose log this machine could not save is stopped and kept, unless `discard_logs`.

        Raises UsageError where several live and none is named."""
        ...

    async def restart(
        self,
        recipe: str | None = None,
        *,
        nodes: int | None = None,
        head: str | None = None,
        override: Sequence[str] = (),
        grace_s: float = 30.0,
        take_over: bool = False,
        discard_logs: bool = False,
        told: Callable[[Sequence[str]], None] = ...,
    ) -> BootState:
        """Stop what runs, verify that nothing is left, launch the recipe as its file is now. told: first hears what
        changes, a line each."""

    async def helpers(self) -> Mapping[str, tuple[Helper, ...] | Absent]:
        """Containers of a moment's use (as of a deep preflight) on each node that answers, asked now."""

    async def look_at_controls(self) -> ControlsView:
        """Ask the nodes who holds the controls now; nothing is changed."""
        ...

    async def hold_controls(self, *, take_over: bool = False, doing: str = "") -> ControlsView:
        """Hold them until released, lost, or the console ends. Raises LeaseHeld (its `holder` says who), unless
        take_over: then the other's hold ends first, its console becomes read-only and says who took them. doing: what
        others are told of this hold while no action is under way."""
        ...

    async def ask_controls(self) -> ControlsView:
        """Leave a request that the holder sees in a second or two; returns at once (`asking`, or `mine` where they are
        free). Handed over, or let go by an action that ends, they become ours by themselves: a notice says so."""
        ...

    async def release_controls(self) -> ControlsView:
        """Hand them over, or withdraw the request. An action under way keeps them to its end."""
        ...

    async def extend_deadline(self, seconds: float) -> None: ...

    async def roll_back(self) -> Mapping[str, tuple[str, str]]:
        """Remove what a failed launch left; the other answer, to keep it, is `keep`."""
        ...

    async def keep(self) -> None: ...

    async def smoke(self) -> Mapping[str, Any]: ...

    async def measure(
        self, spec: MeasureSpec | None = None, told: Callable[[str], None] = lambda _text: None
    ) -> Mapping[str, Any]:
        """Speed of what serves, asked from its head: spreads by concurrency, kept with the boot. told: each round.

        Raises UsageError while nothing serves, MeasureError."""
        ...

    def notify(self, text: str) -> None:
        """Something that a sleeping person should hear of, by the ways out of the alarms."""
        ...

    async def notified(self) -> None:
        """Give what was notified a moment to leave, before the hub is closed."""
        ...

    async def note(self, text: str) -> None: ...

    async def compare_boots(self, *names: str) -> Comparison:
        """Two boots by id; one: against the last before it that served. Raises UsageError, DiskError."""
        ...

    def changes_since_last(self, recipe: str) -> Sequence[str]:
        """What changed in this recipe since its last boot, one line each, or that none is kept; empty: nothing."""
        ...

    def boots(self) -> Sequence[BootSummary]: ...

    async def open_replay(self, boot: str) -> ReplayApi:
        """A hub that plays a boot of the ledger; whoever asked starts and closes it. Raises UsageError, DiskError."""
        ...

    def themes(self) -> Sequence[ThemeColours]: ...

    def acknowledge_alarms(self, ident: int | None = None) -> int:
        """Take note of one alarm, or of all that hold; how many that were."""
        ...

    def mute_alarms(self, seconds: float, *, code: str = "", node: str = "") -> None:
        """Tell nobody of a rule ("": any) on a node ("": any) for a while; 0 ends it."""
        ...

    async def test_alarms(self, way: str | None = None) -> Mapping[str, str]:
        """Send a test by one way out or by all: way -> "" where it went out, else why not. Raises UsageError."""
        ...

    def use_terminal(self, write: Callable[[str], None]) -> None:
        """The face lends its terminal to alarms: the bell and notifications, as far as the settings want them."""
        ...

    def save_log(self, rank: int | None) -> str:
        """Write the lines held (one rank, or all merged) to a file; returns its path."""
        ...


__all__ = [
    "BootSummary",
    "ControlsView",
    "Finding",
    "HubApi",
    "LogBatch",
    "LogLine",
    "NodeView",
    "Notice",
    "RecipeProblem",
    "Snapshot",
]
