"""What goes wrong in the ledger's thread is heard in the loop, once."""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
from pathlib import Path
from typing import Any

import pytest

from console.cluster.model import Cluster, Node
from console.files.boot_folder import BootFolder
from console.files.journal import Journal
from console.services.console_hub import ConsoleHub
from console.services.ledger import Ledger
from tests.services.fakes import FakeFleet, FakeLink, ManualClock

NOW = 1_790_000_000.0
NODE = Node(name="dgx1", host="dgx1")


def full(*_: object) -> None:
    raise OSError(28, "No space left on device")


def surprised(*_: object, **__: object) -> None:
    raise ValueError("never thought of")


def test_any_error_is_told_once_and_nothing_is_written_after_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[str] = []
    ledger = Ledger(Journal(tmp_path / "boots"), told.append)
    keeper = ledger.keeper("d1", 1, "flash", now=NOW)
    monkeypatch.setattr(BootFolder, "append_log", surprised)
    keeper.log(0, [b"x"])
    keeper.log(0, [b"y"])
    keeper.document("measure.json", {})
    ledger.close()
    assert told == ["this boot is not kept on disk: ValueError: never thought of"]
    assert not keeper.writes and keeper.path is not None and not (keeper.path / "measure.json").exists()


def test_work_that_nobody_waits_for_is_told_of_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[str] = []
    ledger = Ledger(Journal(tmp_path / "boots"), told.append)
    monkeypatch.setattr(ledger.index, "boots", surprised)
    ledger.settle((), (), whole=True, now=NOW)
    ledger.close()
    assert told == ["the ledger could not do its work: ValueError: never thought of"]


class NoShelf:
    def load(self) -> tuple[tuple[()], tuple[()]]:
        return (), ()


async def test_a_full_disk_is_a_notice_of_the_loop_while_a_picture_is_due(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a timer set, drawing from another thread fails: the notice would be lost with it."""
    ledger = Ledger(Journal(tmp_path / "boots"))
    parts: dict[str, Any] = {"shelf": NoShelf(), "ledger": ledger, "clock": ManualClock(NOW)}
    hub = ConsoleHub(cluster=Cluster("c", "", (NODE,)), fleet=FakeFleet([FakeLink("dgx1")]), **parts)
    heard = asyncio.Event()
    threads: list[int] = []

    def changed() -> None:
        if hub.snapshot().notices:
            threads.append(threading.get_ident())
            heard.set()

    quiet = hub.subscribe(changed)
    keeper = ledger.keeper("d1", 1, "flash", now=NOW)
    monkeypatch.setattr(os, "fsync", full)
    hub._touch_soon()
    keeper.document("measure.json", {})
    with contextlib.suppress(TimeoutError):  # the disk refuses
        await asyncio.to_thread(keeper.flush)
    async with asyncio.timeout(20):
        await heard.wait()
    (notice,) = hub.snapshot().notices
    assert "not kept on disk" in notice.text and "No space left on device" in notice.text
    assert set(threads) == {threading.get_ident()}
    quiet()
    monkeypatch.undo()
    await hub.close()
