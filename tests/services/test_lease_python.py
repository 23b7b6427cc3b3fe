"""The controls on a node whose python3 hangs or is broken: held, and free again once their console is gone."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from console.services import lease_hold
from console.services.controls import Controls
from console.services.lease import Lease, LeaseHeld
from console.services.lease_program import PROGRAM, PYTHON_S, WATCHER
from tests.services.fakes import ManualClock
from tests.services.machines import Machines

HANGS = "#!/bin/sh\nsleep 1000\n"
SHORT = PROGRAM.replace(f"KILL {PYTHON_S} python3", "KILL 0.5 python3")
BROKEN = "#!/bin/sh\necho 'error while loading shared libraries' >&2\nexit 127\n"


@pytest.fixture(params=[HANGS, BROKEN], ids=["hangs", "broken"])
def no_python(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake = tmp_path / "bin" / "python3"
    fake.parent.mkdir()
    fake.write_text(request.param)
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", f"{fake.parent}:{os.environ['PATH']}")
    monkeypatch.setattr(lease_hold, "BEAT_S", 0.1)
    monkeypatch.setattr(lease_hold, "PROGRAM", SHORT)


async def answered(lease: Lease) -> None:
    """Until the node has answered a beat."""
    hold = lease._holds["dgx1"]
    at = hold._heard_at
    async with asyncio.timeout(20):
        while hold._heard_at <= at:  # noqa: ASYNC110  the node does it
            await asyncio.sleep(0.01)


@pytest.mark.usefixtures("no_python")
async def test_they_are_held_and_given_back_at_once(tmp_path: Path) -> None:
    one, two = Machines(tmp_path, ["dgx1"]), Machines(tmp_path, ["dgx1"])
    async with Lease(one, ["dgx1"], "ann@desk") as lease:
        await answered(lease)
        assert (lease.held, lease.lost) == (("dgx1",), {})
        with pytest.raises(LeaseHeld, match="ann@desk"):
            async with Lease(two, ["dgx1"], "bob@couch"):
                raise AssertionError("two hold the controls")
    async with Lease(two, ["dgx1"], "bob@couch") as free:
        assert free.held == ("dgx1",)


@pytest.mark.usefixtures("no_python")
async def test_they_are_free_once_their_console_was_silent_for_the_lease_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its machine is gone, and the connection stands as far as the node knows."""
    monkeypatch.setattr(lease_hold, "EXPIRE_S", 1.0)
    one, two = Machines(tmp_path, ["dgx1"]), Machines(tmp_path, ["dgx1"])
    argv = ["sh", "-c", SHORT, "nightdeck-lease", "ann@desk", "hold", WATCHER, "1"]
    async with one.link("dgx1").stream(argv, interactive=True) as stream:
        said = lease_hold._lines(stream)
        assert (await anext(said)).startswith("held ")
        await stream.send(b"ann@desk\n")
        async with asyncio.timeout(30):
            rest = [line async for line in said]
        assert rest[-1:] == ["expired"]
    async with Lease(two, ["dgx1"], "bob@couch") as free:
        assert free.held == ("dgx1",)


@pytest.mark.usefixtures("no_python")
async def test_nobody_is_said_to_have_them_after_a_console_that_was_killed(tmp_path: Path) -> None:
    one, two = Machines(tmp_path, ["dgx1"]), Machines(tmp_path, ["dgx1"])
    lease = Lease(one, ["dgx1"], "ann@desk, launching stub")
    await lease.__aenter__()
    await answered(lease)
    for hold in lease._holds.values():
        assert hold._task is not None
        hold._task.cancel()  # its channel ends without a word
    other = Controls(
        two,
        ["dgx1"],
        "bob@couch",
        ManualClock(),
        told=lambda _severity, _text: None,
        acted=lambda _what, _detail: None,
        changed=lambda: None,
    )
    async with asyncio.timeout(30):
        while (await other.look()).state != "free":  # noqa: ASYNC110  asked of a node
            await asyncio.sleep(0.05)
    await lease.__aexit__(None, None, None)
