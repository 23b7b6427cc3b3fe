"""Asked for, handed over, taken, lost, run out: the controls between consoles, on real locks of this machine."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from console.services import lease_hold
from console.services.controls import Controls
from console.services.lease import LeaseHeld, LeaseTaken
from console.services.lease_program import FENCED, PROGRAM, WATCHER
from console.services.scripts import start_argv
from tests.services.fakes import ManualClock
from tests.services.machines import Machines

NODES = ("dgx1", "dgx2")


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lease_hold, "BEAT_S", 0.1)
    monkeypatch.setattr(lease_hold, "AGAIN_S", 0.1)


WHEN = 1_800_000_000.0  # 08:00:00 UTC


class Console:
    """One console's controls, and what it told."""

    def __init__(self, root: Path, by: str, nodes: tuple[str, ...] = NODES) -> None:
        self.fleet = Machines(root, nodes)
        self.told: list[str] = []
        self.did: list[tuple[str, str]] = []
        self._news = asyncio.Event()
        self.controls = Controls(
            self.fleet,
            nodes,
            by,
            ManualClock(WHEN),
            told=lambda _severity, text: self.told.append(text),
            acted=lambda what, detail: self.did.append((what, detail)),
            changed=self._news.set,
        )

    async def until(self, seen: Callable[[Controls], bool]) -> None:
        async with asyncio.timeout(30):
            while not seen(self.controls):
                self._news.clear()
                await self._news.wait()


async def test_asked_for_and_handed_over(tmp_path: Path) -> None:
    ann, bob = Console(tmp_path, "ann@desk"), Console(tmp_path, "bob@couch")
    assert (await ann.controls.look()).state == "free"
    assert (await ann.controls.hold()).state == "mine"
    seen = await bob.controls.look()
    assert (seen.state, seen.holder) == ("other", "ann@desk, at the console since 08:00:00 UTC")
    assert (await bob.controls.ask()).state == "asking"
    await ann.until(lambda c: bool(c.view.asked_by))
    assert ann.controls.view.asked_by == ("bob@couch, at the console since 08:00:00 UTC",)
    assert ann.told == ["bob@couch, at the console since 08:00:00 UTC asks for the controls"]
    assert (await ann.controls.release()).state == "free"
    await bob.until(lambda c: c.view.state == "mine")
    assert bob.controls.view.lasting and bob.told == ["the controls are yours"]
    assert (await ann.controls.look()).holder.startswith("bob@couch")
    assert [what for what, _ in ann.did] == ["controls asked for", "controls released"]
    await bob.controls.close()


async def test_a_request_can_be_withdrawn(tmp_path: Path) -> None:
    ann, bob = Console(tmp_path, "ann@desk"), Console(tmp_path, "bob@couch")
    await ann.controls.hold()
    await bob.controls.ask()
    await ann.until(lambda c: bool(c.view.asked_by))
    assert (await bob.controls.release()).state == "other"
    await ann.until(lambda c: not c.view.asked_by)
    assert not [name for name in os.listdir(tmp_path / "dgx1") if ".a." in name]
    await ann.controls.close()


async def test_taken_knowingly_the_other_only_watches_and_says_by_whom(tmp_path: Path) -> None:
    ann, bob = Console(tmp_path, "ann@desk"), Console(tmp_path, "bob@couch")
    await ann.controls.hold()
    with pytest.raises(LeaseHeld, match="ann@desk"):
        await bob.controls.hold()
    assert (await bob.controls.hold(take_over=True)).state == "mine"
    await ann.until(lambda c: c.taken)
    assert ann.controls.view.holder == "bob@couch, at the console since 08:00:00 UTC"
    with pytest.raises(LeaseTaken, match="bob@couch"):
        async with ann.controls.during("launching x"):
            raise AssertionError("acted without the controls")
    assert ann.did == [("controls lost", "to bob@couch, at the console since 08:00:00 UTC")]
    assert bob.did == [("controls taken over", "from ann@desk, at the console since 08:00:00 UTC")]
    assert (
        await ann.controls.look()
    ).state == "taken" and "bob@couch" in ann.controls.view.holder  # a look gives nothing back
    # And back: whoever takes them knowingly is no more read-only.
    async with ann.controls.during("launching x", take_over=True) as lease:
        assert sorted(lease.held) == list(NODES)
        await bob.until(lambda c: c.taken)
    assert ann.controls.view.state == "free"
    await bob.controls.close()


async def test_an_action_that_loses_the_controls_ends(tmp_path: Path) -> None:
    """Whether its lease is its own or lasts, also where it is only cleaning up by then."""
    for lasting in (False, True):
        ann, bob = Console(tmp_path / str(lasting), "ann@desk"), Console(tmp_path / str(lasting), "bob@couch")
        if lasting:
            await ann.controls.hold()
        inside = asyncio.Event()
        cleaned: list[str] = []

        async def act(ann: Console = ann, inside: asyncio.Event = inside, cleaned: list[str] = cleaned) -> None:
            async with ann.controls.during("launching x"):
                try:
                    inside.set()
                    await asyncio.Event().wait()
                finally:
                    cleaned.append("x")

        acting = asyncio.create_task(act())
        await inside.wait()
        assert (await bob.controls.hold(take_over=True)).state == "mine"
        with pytest.raises(LeaseTaken, match="bob@couch"):
            await acting
        assert cleaned == ["x"] and ann.controls.taken
        await ann.controls.close()
        await bob.controls.close()


async def test_an_operator_who_aborts_is_not_told_that_somebody_took_it(tmp_path: Path) -> None:
    ann = Console(tmp_path, "ann@desk")
    inside = asyncio.Event()

    async def act() -> None:
        async with ann.controls.during("launching x"):
            inside.set()
            await asyncio.Event().wait()

    acting = asyncio.create_task(act())
    await inside.wait()
    acting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await acting
    assert ann.controls.view.state == "free" and not ann.told


async def test_what_the_holder_does_now_is_what_others_hear(tmp_path: Path) -> None:
    ann, bob = Console(tmp_path, "ann@desk"), Console(tmp_path, "bob@couch")
    await ann.controls.hold()
    async with ann.controls.during("launching glm"), asyncio.timeout(30):
        while "launching glm" not in (await bob.controls.look()).holder:  # noqa: ASYNC110  asked of a node
            await asyncio.sleep(0.05)
        with pytest.raises(LeaseHeld, match="launching glm"):
            await bob.controls.hold()
    await ann.controls.close()


async def test_nothing_starts_without_the_controls(tmp_path: Path) -> None:
    ann, bob = Console(tmp_path, "ann@desk"), Console(tmp_path, "bob@couch")
    link = ann.fleet.link("dgx1")
    async with ann.controls.during("launching x") as lease:
        fence = lease.fences["dgx1"]
        started = await link.run(start_argv((), ["echo", "started $HOME"], fence), timeout=20)
        assert (started.status, started.stdout) == (0, b"started $HOME\n")
        assert (await link.run(start_argv((), ["sh", "-c", "exit 7"], fence), timeout=20)).status == 7
        made = await link.run(start_argv([f"{tmp_path}/a b"], ["true"], fence), timeout=20)
        assert made.ok and (tmp_path / "a b").is_dir()
    late = await link.run(start_argv((), ["echo", "started"], fence), timeout=20)
    assert late.status == FENCED and not late.stdout
    async with bob.controls.during("launching y"):
        assert (await link.run(start_argv((), ["echo", "x"], fence), timeout=20)).status == FENCED


async def test_who_takes_the_controls_waits_for_a_start_under_way(tmp_path: Path) -> None:
    """It would show in no census yet. What the start leaves running keeps nobody waiting."""
    ann, bob = Console(tmp_path, "ann@desk"), Console(tmp_path, "bob@couch")
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    words = [
        "sh",
        "-c",
        'sleep 60 >/dev/null 2>&1 & echo "$!" >"$0.pid"; read -r x <"$0"; echo done >>"$0.log"',
        str(gate),
    ]
    async with ann.controls.during("launching x") as lease:
        starting = asyncio.create_task(
            ann.fleet.link("dgx1").run(start_argv((), words, lease.fences["dgx1"]), timeout=60)
        )
        async with asyncio.timeout(20):
            while not gate.with_name("gate.pid").exists():  # noqa: ASYNC110  another process makes it
                await asyncio.sleep(0.01)
    taking = asyncio.create_task(bob.controls.hold(take_over=True))
    await asyncio.wait([taking], timeout=0.5)
    assert not taking.done()
    await asyncio.to_thread(gate.write_text, "go\n")
    assert (await taking).state == "mine"
    assert gate.with_name("gate.log").read_text() == "done\n"
    assert (await starting).ok
    os.kill(int(gate.with_name("gate.pid").read_text()), 9)
    await bob.controls.close()


@pytest.mark.parametrize("python", [True, False])
async def test_a_hold_whose_console_is_silent_ends_by_itself(tmp_path: Path, python: bool) -> None:
    """A frozen console, or one whose machine sleeps. Without python on the node it ends with its connection alone."""
    path = "/usr/bin:/bin"
    if not python:
        (tmp_path / "bin").mkdir()
        for name in ("flock", "id", "rm", "cat", "sleep"):
            (tmp_path / "bin" / name).symlink_to(f"/usr/bin/{name}")
        path = str(tmp_path / "bin")
    process = await asyncio.create_subprocess_exec(
        "/bin/sh", "-c", PROGRAM, "nightdeck-lease", "ann@desk [0123abcd]", "hold", WATCHER, "1",
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, env={"PATH": path, "TMPDIR": str(tmp_path)},
    )  # fmt: skip
    assert process.stdin is not None and process.stdout is not None
    assert (await process.stdout.readline()).startswith(b"held ")
    process.stdin.write(b"ann@desk [0123abcd]\n")
    async with asyncio.timeout(30):
        if python:
            words = (await process.stdout.read()).splitlines()
            assert (words[0], words[-1]) == (b"beat", b"expired")
        else:
            process.stdin.write(b"ann@desk [0123abcd]\n")
            assert await process.stdout.readline() == b"asks\n"
            process.stdin.close()
        assert await process.wait() == 0
    assert not [name for name in os.listdir(tmp_path) if ".h." in name]


async def test_without_python_on_the_node_it_can_still_be_asked_for_and_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tools = tmp_path / "bin"
    tools.mkdir()
    for name in ("sh", "flock", "id", "rm", "cat", "sleep", "env", "setsid", "mktemp", "head", "wc"):
        (tools / name).symlink_to(f"/usr/bin/{name}")
    monkeypatch.setenv("PATH", str(tools))
    ann, bob = Console(tmp_path, "ann@desk"), Console(tmp_path, "bob@couch")
    await ann.controls.hold()
    await bob.controls.ask()
    await ann.until(lambda c: bool(c.view.asked_by))
    assert (await bob.controls.release()).state == "other"
    assert (await bob.controls.hold(take_over=True)).state == "mine"
    await ann.until(lambda c: c.taken)
    await bob.controls.close()
