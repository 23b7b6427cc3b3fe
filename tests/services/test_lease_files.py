"""Files about the controls that somebody else put on a node: nobody is killed, thrown out or written over for them."""

from __future__ import annotations

import asyncio
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from console.services import lease_hold
from console.services.lease import Lease
from tests.services.machines import Machines

TOOLS = ("sh", "flock", "id", "rm", "cat", "sleep", "env", "setsid", "mktemp", "head", "wc", "stat")


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lease_hold, "BEAT_S", 0.1)
    monkeypatch.setattr(lease_hold, "AGAIN_S", 0.1)


@pytest.fixture(params=["python", "sh"])
def watched(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A hold is watched over by python3 where a node has it, else by the shell."""
    if request.param == "sh":
        (tmp_path / "bin").mkdir()
        for name in TOOLS:
            (tmp_path / "bin" / name).symlink_to(f"/usr/bin/{name}")
        monkeypatch.setenv("PATH", str(tmp_path / "bin"))


@pytest.fixture
def stranger() -> Iterator[subprocess.Popen[bytes]]:
    """A process that has nothing to do with it, of this very user: what a pid may mean after it was used again."""
    child = subprocess.Popen(["/usr/bin/sleep", "300"])
    yield child
    child.kill()
    child.wait()


class Node:
    """One node, and what is seen of its controls."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.folder = root / "dgx1"
        self.news = asyncio.Event()

    def lease(self, who: str, mode: str = "hold", waiting: Callable[[str], None] = lambda _holder: None) -> Lease:
        fleet = Machines(self.root, ["dgx1"])
        return Lease(fleet, ["dgx1"], who, mode=mode, changed=self.news.set, waiting=waiting)

    async def told(self) -> Path:
        """The file in which the hold says who it is; it comes right after the lock."""
        async with asyncio.timeout(30):
            while not (rows := [p for p in self.folder.iterdir() if ".h." in p.name and p.stat().st_size]):  # noqa: ASYNC110
                await asyncio.sleep(0.01)  # another process writes it
        return rows[0]

    def drop(self, name: str, text: str) -> Path:
        (lock,) = (p for p in self.folder.iterdir() if p.name.startswith("nightdeck-lease-") and _is_lock(p))
        path = lock.with_name(f"{lock.name}.{name}")
        path.write_text(text)
        return path

    async def until(self, seen: Callable[[], bool]) -> None:
        async with asyncio.timeout(30):
            while not seen():
                self.news.clear()
                await self.news.wait()

    async def asked(self, holder: Lease) -> None:
        """Until the hold has looked through the node's files anew: it says who asks then."""
        async with asyncio.timeout(30):
            asking = asyncio.create_task(self.lease("bob@couch", "ask").__aenter__())
            await self.until(lambda: bool(holder.asks) or bool(holder.taken_by))
            asking.cancel()
            await asyncio.gather(asking, return_exceptions=True)


def _is_lock(path: Path) -> bool:
    return not any(f".{kind}" in path.name for kind in ("a.", "h.", "t.", "run"))


@pytest.mark.usefixtures("watched")
async def test_taking_over_signals_nobody_but_a_holder(tmp_path: Path, stranger: subprocess.Popen[bytes]) -> None:
    """Files that a killed holder left, whose pids are others' now; one with no pid, and one that is no file."""
    node = Node(tmp_path)
    async with node.lease("ann@desk") as ann:
        await node.told()
        node.drop(f"h.0.{stranger.pid}", f"{stranger.pid} carol@attic [0123abcd]\n")
        node.drop("h.0.1", "-1 x\n")
        os.mkfifo(node.folder / f"{node.drop('h.0.2', '').name}3")
        async with node.lease("bob@couch", "take") as bob:
            assert bob.taken_from == "ann@desk"
            await node.until(lambda: bool(ann.taken_by))
            assert ann.taken_by == "bob@couch"
    assert stranger.poll() is None


@pytest.mark.usefixtures("watched")
async def test_a_file_that_names_any_live_process_takes_nothing(
    tmp_path: Path, stranger: subprocess.Popen[bytes]
) -> None:
    node = Node(tmp_path)
    async with node.lease("ann@desk") as ann:
        node.drop(f"t.0.{stranger.pid}", f"{stranger.pid} carol@attic\n")
        node.drop("t.0.1", "1 init\n")
        await node.asked(ann)
        assert (ann.taken_by, ann.held) == ("", ("dgx1",))


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to give a file to another user")
@pytest.mark.usefixtures("watched")
async def test_nobody_speaks_for_anothers_process(tmp_path: Path) -> None:
    node = Node(tmp_path)
    async with node.lease("ann@desk") as ann:
        path = node.drop("t.65534.7", f"{ann.fences['dgx1'][0]} mallory\n")
        os.chown(path, 65534, 65534)
        await node.asked(ann)
        assert (ann.taken_by, ann.held) == ("", ("dgx1",))


async def test_a_link_in_the_way_is_not_followed(tmp_path: Path) -> None:
    node = Node(tmp_path)
    victim = tmp_path / "victim"
    victim.write_text("precious")
    async with node.lease("ann@desk") as ann:
        mine = await node.told()
        for name in ("+", ".+"):
            mine.with_name(mine.name + name).symlink_to(victim)
        ann.rename("ann@desk, launching glm")
        heard: list[str] = []
        asking = asyncio.create_task(
            node.lease("bob@couch", "ask", lambda holder: (heard.append(holder), node.news.set())[0]).__aenter__()
        )
        await node.until(lambda: heard[-1:] == ["ann@desk, launching glm"])
        asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)
    assert victim.read_text() == "precious" and not victim.is_symlink()
