"""The only copy of a log is not removed: what a stop does where this machine could not save what containers hold."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from console.boot.words import KEPT
from console.cli.cmd_launch import tell_stop
from console.cli.out import Out
from console.cluster.model import Cluster, Node
from console.files.atomic import DiskError
from console.files.boot_folder import BootFolder
from console.files.journal import Journal
from console.services import keeper as keepers
from console.services import stopping
from console.services.console_hub import ConsoleHub
from console.services.ledger import Ledger
from console.services.stop import in_words
from console.transport.base import Completed, Stream, TransportError, Trouble
from console.tui.stop_lines import stop_sentence
from tests.services.fakes import FakeFleet, FakeLink, FakeStream, ManualClock

NOW = 1_790_000_000.0
LAST = b"2026-09-21T14:13:22.000000000Z the end\n"
LOG = b"2026-09-21T14:13:21.000000000Z hello\n" + LAST


class Engine(FakeLink):
    """A node with one container of ours, and its log; unreadable: what the engine says instead."""

    def __init__(self, name: str, rank: int) -> None:
        super().__init__(name)
        labels = {"nightdeck.deployment": "flash-b1-aa", "nightdeck.rank": str(rank), "nightdeck.recipe": "flash",
                  "nightdeck.boot": "1"}  # fmt: skip
        self.rows: list[dict[str, Any]] = [
            {"Id": f"{rank:064x}", "Name": f"/nd-r{rank}", "State": {"Status": "running"}, "Config": {"Labels": labels}}
        ]
        self.log = LOG
        self.done = Completed(0, b"", b"")

    @asynccontextmanager
    async def stream(
        self, argv: Sequence[str], *, stdin: bytes = b"", interactive: bool = False, open_timeout: float = 15.0
    ) -> AsyncIterator[Stream]:
        if not any(" logs " in word for word in argv):
            raise TransportError(Trouble.REFUSED, "no lock here", node=self.name)
        yield FakeStream([self.log], self.done)

    async def run(self, argv: Sequence[str], *, timeout: float, stdin: bytes = b"", limit: int = 4 << 20) -> Completed:
        if argv[:2] == ["docker", "stop"]:
            for row in self.rows:
                row["State"]["Status"] = "exited"
        elif any("rm -f" in word for word in argv) or argv[1:3] == ["rm", "-f"]:
            self.rows = [r for r in self.rows if r["Id"] not in argv]
        return Completed(0, json.dumps(self.rows).encode(), b"")


class NoShelf:
    def load(self) -> tuple[tuple[()], tuple[()]]:
        return (), ()


class Bench:
    def __init__(self, root: Path, nodes: Sequence[Engine] = ()) -> None:
        self.nodes = list(nodes) or [Engine("dgx1", 0), Engine("dgx2", 1)]
        self.ledger = Ledger(Journal(root / "boots"))
        parts: dict[str, Any] = {"shelf": NoShelf(), "ledger": self.ledger, "clock": ManualClock(NOW)}
        cluster = Cluster("c", "", tuple(Node(name=n.name, host=n.name) for n in self.nodes))
        self.fleet = FakeFleet(self.nodes)
        self.hub = ConsoleHub(cluster=cluster, fleet=self.fleet, **parts)

    async def stop(self, **how: Any) -> Mapping[str, tuple[str, str]]:
        return await self.hub.stop(grace_s=1.0, **how)

    @property
    def left(self) -> list[str]:
        return [row["Name"] for node in self.nodes for row in node.rows]

    def kept(self) -> dict[str, bytes]:
        (folder,) = self.ledger._journal.root.glob("b*")
        return {p.name: p.read_bytes() for p in folder.glob("rank*.log")}


@pytest.fixture
async def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Bench]:
    monkeypatch.setattr(stopping, "READ_LOG_S", 0.3)
    monkeypatch.setattr(stopping, "DRAIN_S", 0.3)
    made = Bench(tmp_path)
    yield made
    await made.hub.close()


Refuse = Callable[..., None]


@pytest.fixture
def full(monkeypatch: pytest.MonkeyPatch) -> Refuse:
    def refuse(*_: object, **__: object) -> None:
        raise DiskError("cannot be appended to: No space left on device")

    monkeypatch.setattr(BootFolder, "append_log", refuse)
    monkeypatch.setattr(keepers, "write_whole", refuse)
    return refuse


def told(results: Mapping[str, tuple[str, str]], capsys: pytest.CaptureFixture[str], *, js: bool) -> tuple[int, str]:
    capsys.readouterr()
    return tell_stop(results, Out(as_json=js)), capsys.readouterr().out


async def test_with_room_all_is_saved_and_removed(bench: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    results = await bench.stop()
    assert (bench.left, results) == ([], {"dgx1": ("stopped", ""), "dgx2": ("stopped", "")})
    assert bench.kept() == {"rank0.log": LOG, "rank1.log": LOG}
    assert told(results, capsys, js=False) == (0, "2 stopped\n")


@pytest.mark.usefixtures("full")
async def test_on_a_full_disk_they_are_stopped_and_kept_and_a_later_stop_saves_them(
    bench: Bench, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    results = await bench.stop()
    assert bench.left == ["/nd-r0", "/nd-r1"]
    state, detail = results["dgx1"]
    assert state == "stopped" and detail.startswith(f"{KEPT}nd-r0 (exited)") and "No space left on device" in detail
    code, said = told(results, capsys, js=False)
    assert code == 4 and said.startswith("2 stopped, containers kept on dgx1, dgx2, because ")
    assert "No space left on device" in said
    code, said = told(results, capsys, js=True)
    assert code == 4 and (json.loads(said)["result"], json.loads(said)["kept"]) == ("stopped", ["dgx1", "dgx2"])
    assert stop_sentence(results).startswith("2 stopped (kept, their logs are not saved: dgx1, dgx2)")
    monkeypatch.undo()
    results = await bench.stop()
    assert (bench.left, in_words(results)) == ([], "2 stopped")
    assert bench.kept() == {"rank0.log": LOG, "rank1.log": LOG}


@pytest.mark.usefixtures("full")
async def test_who_discards_the_logs_is_obeyed(bench: Bench) -> None:
    results = await bench.stop(discard_logs=True)
    assert (bench.left, in_words(results)) == ([], "2 stopped")


async def test_a_log_that_could_not_be_read_whole_keeps_its_container_alone(bench: Bench) -> None:
    bench.nodes[1].done = Completed(1, b"", b"error from daemon in stream: Error grabbing logs: unexpected EOF")
    results = await bench.stop()
    assert bench.left == ["/nd-r1"] and results["dgx1"] == ("stopped", "")
    assert results["dgx2"][1].startswith(f"{KEPT}nd-r1 (exited)")


async def test_an_engine_that_keeps_no_logs_keeps_no_container(bench: Bench) -> None:
    bench.nodes[1].log = b"Error response from daemon: configured logging driver does not support reading\n"
    bench.nodes[1].done = Completed(1, b"", b"")
    assert in_words(await bench.stop()) == "2 stopped" and bench.left == []


async def test_a_boot_that_has_no_folder_is_kept_on_its_nodes(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "mkdir", refuse)
    results = await bench.stop()
    assert bench.left == ["/nd-r0", "/nd-r1"] and "No space left on device" in results["dgx1"][1]
    monkeypatch.undo()
    assert in_words(await bench.stop()) == "2 stopped"
    assert bench.kept() == {"rank0.log": LOG, "rank1.log": LOG}


@pytest.mark.parametrize("written", [LOG, LOG.removesuffix(LAST)])
async def test_where_another_console_writes_its_file_is_looked_at(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, written: bytes
) -> None:
    monkeypatch.setattr(keepers, "OTHERS_S", 0.3)
    other = Ledger(Journal(tmp_path / "boots"))
    keeper = other.keeper("flash-b1-aa", 1, "flash", now=NOW)
    for rank in (0, 1):
        keeper.log(rank, written.splitlines())
    keeper.flush()
    results = await bench.stop()
    if written == LOG:
        assert (bench.left, in_words(results)) == ([], "2 stopped")
    else:
        assert bench.left == ["/nd-r0", "/nd-r1"] and f"process {os.getpid()} writes" in results["dgx1"][1]
    other.close()


@pytest.mark.usefixtures("full")
async def test_a_later_launch_names_what_is_kept(bench: Bench) -> None:
    await bench.stop()
    bench.hub._tell_kept(await bench.hub._census())
    text = bench.hub.snapshot().notices[-1].text
    assert "dgx1: nd-r0 (exited), dgx2: nd-r1 (exited)" in text and "nightdeck stop --all" in text


class Slow(Engine):
    """Its log comes in part, and the rest only when somebody reads it anew."""

    def __init__(self, name: str, rank: int) -> None:
        super().__init__(name, rank)
        self.readers = 0

    @asynccontextmanager
    async def stream(
        self, argv: Sequence[str], *, stdin: bytes = b"", interactive: bool = False, open_timeout: float = 15.0
    ) -> AsyncIterator[Stream]:
        if not any(" logs " in word for word in argv):
            raise TransportError(Trouble.REFUSED, "no lock here", node=self.name)
        self.readers += 1
        if self.readers == 1:
            yield Hanging([self.log.removesuffix(LAST)], self.done)
        else:
            yield FakeStream([self.log], self.done)


class Hanging(FakeStream):
    async def blocks(self) -> AsyncIterator[bytes]:
        for piece in self.pieces:
            yield piece
        await asyncio.Event().wait()


async def test_a_log_that_does_not_come_to_its_end_is_read_on_and_no_line_is_kept_twice(bench: Bench) -> None:
    for rank in (0, 1):
        bench.nodes[rank] = bench.fleet.links[f"dgx{rank + 1}"] = Slow(f"dgx{rank + 1}", rank)
    results = await bench.stop()
    assert (bench.left, in_words(results)) == ([], "2 stopped")
    assert bench.kept() == {"rank0.log": LOG, "rank1.log": LOG}
    seen = [line.text for line in bench.hub.log(0).lines if line.rank == 0]
    assert seen == ["hello", "the end"], "on the screen as in the file"


OTHERS = LOG.replace(b"14:13", b"14:02").replace(b"hello", b"from another node")


class Twin(Engine):
    """It knows its own container alone; `twin`: a second one of a rank that another node has too."""

    def __init__(self, name: str, rank: int, twin: bool = False) -> None:
        super().__init__(name, rank)
        if twin:
            self.rows[0] |= {"Id": f"{rank + 0xBEE:064x}", "Name": f"/nd-twin-r{rank}"}
            self.log = OTHERS

    @asynccontextmanager
    async def stream(
        self, argv: Sequence[str], *, stdin: bytes = b"", interactive: bool = False, open_timeout: float = 15.0
    ) -> AsyncIterator[Stream]:
        mine = {name for row in self.rows for name in (row["Id"], row["Name"].lstrip("/"))}
        if any(" logs " in word for word in argv) and mine.isdisjoint(argv):
            yield FakeStream([b"Error response from daemon: No such container\n"], Completed(1, b"", b""))
            return
        async with super().stream(argv, stdin=stdin, interactive=interactive, open_timeout=open_timeout) as stream:
            yield stream


@pytest.fixture
async def twins(tmp_path: Path, bench: Bench) -> AsyncIterator[Bench]:
    """Rank 0 on two nodes, as it may be where a launch was tried on others before. bench: for its limits."""
    made = Bench(tmp_path / "twins", [Twin("dgx1", 0, twin=True), Twin("dgx2", 1), Twin("dgx3", 0)])
    yield made
    await made.hub.close()


async def test_a_rank_s_containers_on_two_nodes_are_saved_both(twins: Bench) -> None:
    assert (in_words(await twins.stop()), twins.left) == ("3 stopped", [])
    assert twins.kept() == {"rank0.log": LOG + OTHERS, "rank1.log": LOG}


async def test_the_second_is_kept_where_it_could_not_be_read_and_its_lines_come_once(twins: Bench) -> None:
    twin = twins.nodes[0]
    twin.done = Completed(1, b"", b"error from daemon in stream: Error grabbing logs: unexpected EOF")
    results = await twins.stop()
    assert twins.left == ["/nd-twin-r0"] and results["dgx1"][1].startswith(f"{KEPT}nd-twin-r0 (exited)")
    twin.done = Completed(0, b"", b"")
    twin.log = OTHERS + LAST
    assert (in_words(await twins.stop()), twins.left) == ("1 stopped", [])
    assert twins.kept()["rank0.log"] == LOG + OTHERS + LAST


async def test_the_second_is_kept_where_another_console_writes_the_boot(twins: Bench, tmp_path: Path) -> None:
    other = Ledger(Journal(tmp_path / "twins" / "boots"))
    keeper = other.keeper("flash-b1-aa", 1, "flash", now=NOW)
    for rank in (0, 1):
        keeper.log(rank, LOG.splitlines())
    keeper.flush()
    results = await twins.stop()
    assert twins.left == ["/nd-twin-r0"] and "reads another container of this rank" in results["dgx1"][1]
    other.close()
