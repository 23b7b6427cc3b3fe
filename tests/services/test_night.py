"""Nights in no time: a hub that boots by script, a clock that only pauses move."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from console.base.absent import NOT_SAMPLED
from console.base.errors import NightdeckError
from console.boot.events import Event, SmokeDone, StatsSeen
from console.boot.night_model import Night, Phase, Rules, Run, Step, expand
from console.boot.state import BootState
from console.boot.state import Phase as BootPhase
from console.cluster.model import Node
from console.files.atomic import DiskError
from console.services.hub import ControlsView, NodeView
from console.services.lease import LeaseHeld
from console.services.measure import MeasureError
from console.services.night import NightRunner, Plan
from console.telemetry.sample import Gpu, Sample
from tests.services.fakes import ManualClock

T0 = 1_800_000_000.0
HOUR = 3600.0


class ScriptedHub:
    """recipes: name -> how its boots end, in order (the last one repeats): `ready`, `failed`, `hang`, `bad`, `refuse`,
    or `die N` (it dies after N seconds). A boot that becomes ready does so after 600 s."""

    def __init__(self, clock: ManualClock, **recipes: Sequence[str]) -> None:
        self.clock = clock
        self.recipes = {name: list(ends) for name, ends in recipes.items()}
        self.did: list[str] = []
        self.temps = {"dgx1": 45.0}
        self.live: BootState | None = None
        self.how = ""
        self.number = 0
        self.stop_result = ("stopped", "")
        self.measures: list[Exception | dict[str, Any]] = []
        self.controls = ControlsView("free")
        self.others: list[str] = []  # who has the controls, one try after another
        self._heard: list[Callable[[str, Event], None]] = []

    def listen(self, heard: Callable[[str, Event], None]) -> Callable[[], None]:
        self._heard.append(heard)
        return lambda: self._heard.remove(heard)

    def client(self, requests: float = 1.0) -> None:
        self.tell(StatsSeen(self.clock.now, {"running": requests}))

    def tell(self, event: Event) -> None:
        for heard in self._heard:
            heard("d", event)

    async def hold_controls(self, *, take_over: bool = False, doing: str = "") -> ControlsView:
        assert not take_over and doing.startswith("running the night ")
        if self.others:
            raise LeaseHeld("dgx1", self.others.pop(0))
        self.controls = ControlsView("mine", "ann@desk", lasting=True)
        return self.controls

    def snapshot(self) -> Any:
        boot = self._now()
        views = [
            NodeView(
                Node(name, name),
                "fresh",
                0.0,
                Sample(name, 1, 0.0, 0.0, 0.0, gpus=(Gpu(0, temp_c=temp),)) if temp else NOT_SAMPLED,
            )
            for name, temp in self.temps.items()
        ]
        return _Snap(tuple(views), boot, (boot,) if boot is not None else (), self.controls)

    def _now(self) -> BootState | None:
        boot = self.live
        if boot is None or boot.phase.over:
            return boot
        age = self.clock.now - boot.launched_at
        if self.how == "ready" and age >= 600:
            boot = replace(boot, phase=BootPhase.READY, ready_at=boot.launched_at + 600, smoke_text="Paris.")
        elif self.how == "failed" and age >= 300:
            boot = replace(boot, phase=BootPhase.FAILED, failed_why="rank 3 died")
        elif self.how == "bad" and age >= 600:
            boot = replace(boot, phase=BootPhase.SERVING_BAD, smoke_why="it loops")
        self.live = boot
        return boot

    async def launch(self, recipe: str, *, override: Sequence[str] = (), **_: Any) -> BootState:
        ends = self.recipes[recipe]
        self.how = ends.pop(0) if len(ends) > 1 else ends[0]
        self.did.append(f"launch {recipe}")
        if self.how == "refuse":
            raise NightdeckError("image-missing on dgx6")
        if self.how == "crash":
            raise RuntimeError("the controller lost its power")
        self.number += 1
        self.live = BootState(
            f"{recipe}-{self.number}", self.number, recipe, recipe, "", "dgx1", BootPhase.BOOTING, self.clock.now,
            3600.0, 8000, "m", (),
        )  # fmt: skip
        return self.live

    async def stop(self, deployment: str | None = None, *, grace_s: float = 30.0) -> Mapping[str, tuple[str, str]]:
        assert deployment == "*"
        was = self._now()
        if (was is not None and not was.phase.over) or (was is not None and was.phase is BootPhase.FAILED):
            self.did.append(f"stop {was.recipe}")
        if self.stop_result[0] == "stopped":
            self.live = None
        return {"dgx1": self.stop_result}

    async def measure(self, spec: Any = None, told: Callable[[str], None] = lambda _t: None) -> Mapping[str, Any]:
        self.did.append("measure")
        found = self.measures.pop(0) if self.measures else {"levels": []}
        if isinstance(found, Exception):
            raise found
        return found


@dataclass
class _Snap:
    nodes: tuple[NodeView, ...]
    boot: BootState | None
    boots: tuple[BootState, ...]
    controls: ControlsView


@dataclass
class MemoryStore:
    states: list[Night] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)

    def write(self, night: Night, extra: Mapping[str, Any]) -> None:
        self.states.append(night)

    def log(self, night: str, text: str, at: float) -> None:
        self.lines.append(text)


@dataclass
class Bench:
    clock: ManualClock
    hub: ScriptedHub
    store: MemoryStore
    told: list[str]
    runner: NightRunner
    at: dict[float, Callable[[], None]] = field(default_factory=dict)

    async def run(self) -> Night:
        return await self.runner.run()


def bench(
    steps: Sequence[Step], *, rules: Rules | None = None, night: Night | None = None, **recipes: Sequence[str]
) -> Bench:
    clock = ManualClock(T0)
    hub = ScriptedHub(clock, **recipes)
    store = MemoryStore()
    told: list[str] = []
    rules = rules or Rules(hard_end=T0 + 8 * HOUR, baseline="base")
    runs = expand(steps, [s.recipe for s in steps], rules.baseline)
    made: list[Bench] = []

    async def pause(seconds: float) -> None:
        clock.now += seconds
        for when in [w for w in made[0].at if w <= clock.now]:
            made[0].at.pop(when)()
        await asyncio.sleep(0)

    runner = NightRunner(
        hub,  # type: ignore[arg-type]
        Plan("t", rules, runs),
        night or Night("n1"),
        store,
        clock,
        notify=told.append,
        pause=pause,
    )
    made.append(Bench(clock, hub, store, told, runner))
    return made[0]


def outcomes(night: Night) -> list[tuple[str, str]]:
    return [(r.label, r.outcome) for r in night.results]


async def test_baseline_lever_baseline_and_the_baseline_is_left_serving() -> None:
    b = bench([Step("lever", "lever", aba=True)], base=["ready"], lever=["ready"])
    night = await b.run()
    assert outcomes(night) == [("baseline", "served"), ("lever", "served"), ("baseline", "served")]
    assert b.hub.did == [
        "launch base", "measure", "stop base", "launch lever", "measure", "stop lever", "launch base", "measure",
        "stop base", "launch base",
    ]  # fmt: skip
    assert (night.left_serving, night.why) == ("base", "everything has run; base serves again")
    assert night.results[1].ready_s == 600.0 and night.results[1].text == "Paris."
    assert b.told == ["the night is over: 3 of 3 runs served; everything has run; base serves again"]


async def test_two_deaths_end_the_trials_and_the_baseline_comes_back() -> None:
    steps = [Step(f"s{n}", f"s{n}") for n in range(5)]
    b = bench(steps, base=["ready"], s0=["failed"], s1=["refuse"], s2=["ready"], s3=["ready"], s4=["ready"])
    night = await b.run()
    assert outcomes(night) == [("s0", "failed"), ("s1", "failed")]
    assert [r.why for r in night.results] == ["rank 3 died", "image-missing on dgx6"]
    assert night.why == "2 failures in a row; base serves again"


@dataclass
class FullStore(MemoryStore):
    """A disk that refuses every write from a moment on, until another."""

    clock: ManualClock = field(default_factory=ManualClock)
    full_from: float = 0.0
    full_to: float = float("inf")

    def _ask(self) -> None:
        if self.full_from <= self.clock.now < self.full_to:
            raise DiskError("cannot be written: No space left on device", where="/state")

    def write(self, night: Night, extra: Mapping[str, Any]) -> None:
        self._ask()
        super().write(night, extra)

    def log(self, night: str, text: str, at: float) -> None:
        self._ask()
        super().log(night, text, at)


def full_bench(**store: float) -> Bench:
    b = bench([Step("lever", "lever")], base=["ready"], lever=["ready"])
    b.store = b.runner._store = FullStore(clock=b.clock, **store)  # type: ignore[arg-type]
    return b


@pytest.mark.parametrize("full_from", [T0, T0 + 300, T0 + 900])
async def test_a_full_disk_ends_no_night_and_the_baseline_comes_back(full_from: float) -> None:
    b = full_bench(full_from=full_from)
    night = await b.run()
    assert b.hub.did == ["launch lever", "measure", "stop lever", "launch base"]
    assert (night.phase, night.left_serving, b.runner.saved) == (Phase.DONE, "base", False)
    assert [t for t in b.told if "disk" in t] == [
        "the night goes on, but is not kept on disk: /state: cannot be written: No space left on device"
    ]


async def test_a_disk_that_has_room_again_gets_all_that_was_said() -> None:
    b = full_bench(full_from=T0 + 300, full_to=T0 + 900)
    plain = bench([Step("lever", "lever")], base=["ready"], lever=["ready"])
    await plain.run()
    await b.run()
    assert b.runner.saved and b.store.states[-1] == b.runner.night
    assert [line for line in b.store.lines if "not kept" not in line] == plain.store.lines


async def test_the_end_of_a_night_waits_for_room() -> None:
    """What the disk says is what a keeper goes by: a night that it does not know to be over would be begun again."""
    b = full_bench(full_from=T0 + 900, full_to=T0 + 1500)
    night = await b.run()
    assert b.store.states[-1] == night and night.phase is Phase.DONE
    assert b.clock.now >= T0 + 1500 and b.runner.saved


async def test_a_success_in_between_forgives() -> None:
    steps = [Step(f"s{n}", f"s{n}") for n in range(4)]
    b = bench(steps, base=["ready"], s0=["failed"], s1=["ready"], s2=["bad"], s3=["ready"])
    night = await b.run()
    assert [o for _, o in outcomes(night)] == ["failed", "served", "not_ready", "served"] or [
        o for _, o in outcomes(night)
    ] == ["failed", "served", "bad_text", "served"]


async def test_the_hard_end_cuts_a_boot_and_nothing_is_measured_after_it() -> None:
    rules = Rules(hard_end=T0 + 900, baseline="base")
    b = bench([Step("slow", "slow"), Step("next", "next")], rules=rules, base=["ready"], slow=["hang"], next=["ready"])
    night = await b.run()
    assert outcomes(night) == [("slow", "cut")]
    assert night.left_serving == "base" and "launch next" not in b.hub.did
    assert b.clock.now >= T0 + 900


async def test_decision_time_launches_what_was_decided() -> None:
    rules = Rules(hard_end=T0 + 8 * HOUR)  # no baseline: what was decided is what is wanted in the morning
    step = Step("big", "big", ready_by=T0 + 1200, otherwise="safe")
    b = bench([step], rules=rules, big=["hang"], safe=["ready"])
    night = await b.run()
    assert outcomes(night) == [("big", "not_ready"), ("instead of big", "served")]
    assert (night.left_serving, b.hub.did) == ("safe", ["launch big", "stop big", "launch safe"])
    assert b.hub.live is not None and b.hub.live.recipe == "safe"
    assert T0 + 1200 <= b.clock.now < T0 + 2000


async def test_it_waits_for_time_for_cool_gpus_and_for_clients() -> None:
    rules = Rules(hard_end=T0 + 8 * HOUR, start_after=T0 + HOUR, baseline="base", quiet_s=900)
    b = bench([Step("a", "a")], rules=rules, base=["ready"], a=["ready"])
    b.hub.temps = {"dgx1": 71.0, "dgx2": 40.0}
    b.hub.live = BootState(
        "old", 0, "old", "old", "", "dgx1", BootPhase.READY, T0 - HOUR, 3600.0, 8000, "m", ()
    )  # fmt: skip
    b.at = {T0 + HOUR + 100: b.hub.client, T0 + HOUR + 1500: lambda: b.hub.temps.update(dgx1=50.0)}
    launched: list[float] = []
    real = b.hub.launch

    async def launch(recipe: str, **rest: Any) -> BootState:
        launched.append(b.clock.now - T0)
        return await real(recipe, **rest)

    b.hub.launch = launch  # type: ignore[method-assign]
    await b.run()
    assert HOUR + 1500 <= launched[0] <= HOUR + 1530
    waits = [line for line in b.store.lines if line.startswith("waiting")]
    assert waits[0] == "waiting: the start time has not come"
    assert any("a client used the model" in w for w in waits)
    assert any("the GPU of dgx1 has 71 °C" in w for w in waits)


async def test_a_node_without_a_word_holds_the_night_until_its_end() -> None:
    b = bench([Step("a", "a")], rules=Rules(hard_end=T0 + 600, baseline="base"), base=["ready"], a=["ready"])
    b.hub.temps = {"dgx1": 40.0, "dgx8": 0.0}
    night = await b.run()
    assert outcomes(night) == [] and night.why.startswith("the hard end has come")
    assert "waiting: no word from dgx8" in b.store.lines


async def test_what_cannot_be_stopped_is_a_failure_and_is_told() -> None:
    b = bench([Step("a", "a")], base=["ready"], a=["ready"])
    b.hub.stop_result = ("still_running", "dgx1: a container survives")
    night = await b.run()
    assert night.results[0].outcome == "failed" and "still running" in night.results[0].why
    assert night.left_serving == "" and "THE BASELINE base DOES NOT SERVE" in night.why
    assert any("did not come back" in t for t in b.told)


async def test_the_baseline_is_tried_twice() -> None:
    b = bench([Step("a", "a")], base=["failed", "ready"], a=["ready"])
    night = await b.run()
    assert night.left_serving == "base" and b.hub.did.count("launch base") == 2
    assert any("did not come back" in t for t in b.told)


async def test_a_stop_ends_the_trial_and_restores() -> None:
    b = bench([Step("a", "a"), Step("b", "b")], base=["ready"], a=["hang"], b=["ready"])
    b.at = {T0 + 100: b.runner.ask_stop}
    night = await b.run()
    assert outcomes(night) == [("a", "cut")] and "launch b" not in b.hub.did
    assert (night.left_serving, night.why) == ("base", "the operator stopped the night; base serves again")


async def test_a_measurement_that_fails_does_not_fail_the_boot() -> None:
    b = bench([Step("a", "a")], base=["ready"], a=["ready"])
    b.hub.measures = [MeasureError("nothing could be measured: 500")]
    night = await b.run()
    assert (night.results[0].outcome, night.results[0].measure_why) == ("served", "nothing could be measured: 500")


async def test_a_dead_controller_is_not_held_against_the_boot() -> None:
    """The controller dies in a run; resumed, the run comes once more, then the night goes on."""
    steps = [Step("a", "a"), Step("b", "b")]
    b = bench(steps, base=["ready"], a=["crash"], b=["ready"])
    with pytest.raises(RuntimeError):
        await b.run()
    left = b.store.states[-1]
    assert left.running is not None and left.running.label == "a" and left.next == 0
    again = bench(steps, night=left, base=["ready"], a=["ready"], b=["ready"])
    night = await again.run()
    assert outcomes(night) == [("a", "interrupted"), ("a", "served"), ("b", "served")]
    twice = bench(steps, night=replace(left, results=(night.results[0],)), base=["ready"], a=["ready"], b=["ready"])
    assert outcomes(await twice.run()) == [("a", "interrupted"), ("a", "interrupted"), ("b", "served")]


async def test_a_controller_that_died_while_restoring_restores() -> None:
    left = Night("n1", phase=_phase("restoring"), next=1, began=True, why="everything has run")
    b = bench([Step("a", "a")], night=left, base=["ready"], a=["ready"])
    night = await b.run()
    assert b.hub.did == ["launch base"] and night.left_serving == "base"


def _phase(word: str) -> Any:
    from console.boot.night_model import Phase

    return Phase(word)


async def test_every_state_on_the_way_can_be_gone_on_with() -> None:
    """Whatever state was written last before a power cut, resuming ends with the baseline serving."""
    steps = [Step("a", "a", aba=True), Step("b", "b", ready_by=T0 + 5000, otherwise="safe")]
    recipes: dict[str, Sequence[str]] = {"base": ["ready"], "a": ["failed"], "b": ["hang"], "safe": ["ready"]}
    whole = bench(steps, **{k: list(v) for k, v in recipes.items()})
    await whole.run()
    assert len(whole.store.states) > 10
    for state in whole.store.states[:-1]:
        night = await bench(steps, night=state, **{k: list(v) for k, v in recipes.items()}).run()
        assert night.left_serving == "base", state


async def test_the_controls_are_held_through_the_night_and_waited_for() -> None:
    b = bench([Step("a", "a")], base=["ready"], a=["ready"])
    b.hub.others = ["bob@couch, launching glm since 02:58 UTC"] * 3
    night = await b.run()
    assert b.store.lines[0] == "waiting: bob@couch, launching glm since 02:58 UTC has the controls"
    assert (outcomes(night), night.left_serving) == ([("a", "served")], "base")
    assert T0 + 45 <= night.results[0].started_at < T0 + 60 and b.hub.controls.lasting


async def test_whoever_takes_the_controls_gets_what_runs_and_the_night_ends() -> None:
    """No baseline is fought for: somebody is awake and has decided."""
    b = bench([Step("a", "a"), Step("b", "b")], base=["ready"], a=["hang"], b=["ready"])
    b.at = {
        T0 + 100: lambda: setattr(b.hub, "controls", replace(b.hub.controls, asked_by=("bob@couch",))),
        T0 + 200: lambda: setattr(b.hub, "controls", ControlsView("taken", "bob@couch, restarting glm")),
    }
    night = await b.run()
    assert outcomes(night) == [("a", "cut")] and night.results[0].why == "bob@couch, restarting glm took the controls"
    assert b.hub.did == ["launch a"] and b.hub.live is not None  # neither stopped nor replaced
    assert night.left_serving == "" and "what runs is theirs" in night.why
    assert any("bob@couch asks for the controls" in t for t in b.told)


async def test_our_own_request_is_no_client() -> None:
    rules = Rules(hard_end=T0 + 8 * HOUR, baseline="base", quiet_s=900)
    b = bench([Step("a", "a")], rules=rules, base=["ready"], a=["ready"])
    b.hub.live = BootState("old", 0, "old", "old", "", "dgx1", BootPhase.READY, T0 - HOUR, 3600.0, 8000, "m", ())
    # The canary is in the engine's figures of the same ten seconds, told before or after it came back.
    for at in (T0 + 60.0 * minute for minute in range(1, 14)):
        b.at[at] = lambda at=at: b.hub.tell(StatsSeen(at, {"running": 1.0}))  # type: ignore[misc]
        b.at[at + 1] = lambda at=at: b.hub.tell(SmokeDone(at + 1, True, "Paris.", canary=True))  # type: ignore[misc]
        b.at[at + 9] = lambda at=at: b.hub.tell(StatsSeen(at + 9, {"prompt_tps": 4.0}))  # type: ignore[misc]
    night = await b.run()
    assert T0 + 900 <= night.results[0].started_at <= T0 + 945


@pytest.mark.parametrize("values", [{"running": 2.0}, {"running": 1.0}, {"generation_tps": 12.0}])
async def test_a_client_is_one_whose_figures_we_cannot_explain(values: dict[str, float]) -> None:
    rules = Rules(hard_end=T0 + 8 * HOUR, baseline="base", quiet_s=900)
    b = bench([Step("a", "a")], rules=rules, base=["ready"], a=["ready"])
    b.hub.live = BootState("old", 0, "old", "old", "", "dgx1", BootPhase.READY, T0 - HOUR, 3600.0, 8000, "m", ())
    b.at = {
        T0 + 560: lambda: b.hub.tell(SmokeDone(b.clock.now, True, "Paris.", canary=True)),
        T0 + 600: lambda: b.hub.tell(StatsSeen(b.clock.now, values)),
    }
    night = await b.run()
    assert T0 + 1500 <= night.results[0].started_at <= T0 + 1545


async def test_a_reboot_of_the_controller_is_called_that() -> None:
    left = replace(Night("n1"), phase=_phase("running"), began=True, running=Run(1, "a", "a"))
    b = bench([Step("a", "a")], night=left, base=["ready"], a=["ready"])
    b.runner._rebooted = True
    night = await b.run()
    assert night.results[0].why == "the controller was rebooted in the middle of it"
    assert outcomes(night)[1:] == [("a", "served")] and night.left_serving == "base"


async def test_six_boots_with_three_different_failures_end_at_the_baseline() -> None:
    """The lost terminal of the real one (tests/cli/test_night.py) is nothing here: a controller that is begun again at
    any of its states ends the same way."""
    steps = [
        Step("a", "a"), Step("b", "b"), Step("c", "c"), Step("d", "d", ready_by=T0 + 2200), Step("e", "e"),
        Step("f", "f"),
    ]  # fmt: skip
    rules = Rules(hard_end=T0 + 20 * HOUR, baseline="base", give_up_after=3)
    how: dict[str, Sequence[str]] = {
        "a": ["ready"], "b": ["failed"], "c": ["ready"], "d": ["hang"], "e": ["bad"], "f": ["ready"], "base": ["ready"],
    }  # fmt: skip
    wanted = [("a", "served"), ("b", "failed"), ("c", "served"), ("d", "not_ready"), ("e", "bad_text"), ("f", "served")]
    b = bench(steps, rules=rules, **{k: list(v) for k, v in how.items()})
    night = await b.run()
    assert outcomes(night) == wanted
    assert [r.why for r in night.results] == ["", "rank 3 died", "", "not ready in time", "it loops", ""]
    assert (night.left_serving, night.why) == ("base", "everything has run; base serves again")
    assert b.told[-1] == "the night is over: 3 of 6 runs served; everything has run; base serves again"
    for state in b.store.states[:-1:6]:
        again = bench(steps, rules=rules, night=state, **{k: list(v) for k, v in how.items()})
        night = await again.run()
        assert [o for o in outcomes(night) if o[1] != "interrupted"] == wanted, state
        assert night.left_serving == "base", state


def test_runs_are_numbered_and_baselines_not_repeated() -> None:
    runs = expand([Step("x", "x", aba=True), Step("y", "y", aba=True)], ["x", "y"], "base")
    assert [r.recipe for r in runs] == ["base", "x", "base", "y", "base"]
    assert runs[0] == Run(1, "base", "baseline", "baseline")
