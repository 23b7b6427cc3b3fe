"""`launch --rollback`: what a failed launch started is removed, its logs saved, also where it failed while loading."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from console.base.errors import ExitCode
from console.boot.state import BootState, Phase
from console.cli import cmd_launch, follow
from console.cli.out import Out
from console.services.hub import HubApi


class Hub:
    """A hub whose launch ends in one phase."""

    def __init__(self, phase: Phase) -> None:
        self.state = cast(
            BootState,
            SimpleNamespace(
                deployment="tiny-b1-x", number=1, recipe="tiny", phase=phase, failed_why="rank 1 ended", cause=None,
                smoke_bad=2, smoke_why="no text", smoke_text="!!!!", deadline_at=1e12, deadline_s=3600.0, ranks=(),
            ),
        )  # fmt: skip
        self.stopped: list[tuple[str, float]] = []

    async def launch(self, _name: str, **_options: Any) -> BootState:
        return self.state

    async def start(self) -> None:
        return

    def subscribe(self, _changed: Callable[[], None]) -> Callable[[], None]:
        return lambda: None

    def now(self) -> float:
        return 1000.0

    def snapshot(self) -> Any:
        return SimpleNamespace(boots=(self.state,), boot=self.state)

    async def stop(self, deployment: str, *, grace_s: float) -> dict[str, tuple[str, str]]:
        self.stopped.append((deployment, grace_s))
        return {"dgx1": ("stopped", ""), "dgx2": ("stopped", "")}


async def launched(hub: Hub, monkeypatch: pytest.MonkeyPatch, *, rollback: bool) -> tuple[int, list[str]]:
    args = argparse.Namespace(
        name="tiny", nodes=None, head=None, override=[], rollback=rollback, take_over=False, drop_caches=False,
        sync_image=False, no_sync_image=False, note=None, detach=False,
    )  # fmt: skip
    lines: list[str] = []

    async def told(*_: Any) -> BootState:
        return hub.state

    monkeypatch.setattr(follow, "_explained", told)
    monkeypatch.setattr(follow, "elapsed_text", lambda *_: "0:10")
    monkeypatch.setattr(follow, "WaitTeller", lambda _out: SimpleNamespace(look=lambda *_: None))
    out = cast(Out, SimpleNamespace(line=lines.append, say=lines.append, flush=lambda: None, as_json=False))
    teller = cast(follow.Teller, SimpleNamespace(flush=lambda: None))
    return await cmd_launch._launch(args, cast(HubApi, hub), out, teller), lines


@pytest.mark.parametrize("phase", [Phase.FAILED, Phase.SERVING_BAD])
async def test_a_launch_that_failed_while_it_loaded_is_rolled_back(
    phase: Phase, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub = Hub(phase)
    code, lines = await launched(hub, monkeypatch, rollback=True)
    assert (code, hub.stopped) == (ExitCode.FAILED, [("tiny-b1-x", 10.0)])
    assert lines[-1].startswith("rolled back: ") and not any("kept" in line for line in lines)


async def test_without_it_the_containers_are_kept_and_said_to_be(monkeypatch: pytest.MonkeyPatch) -> None:
    hub = Hub(Phase.FAILED)
    code, lines = await launched(hub, monkeypatch, rollback=False)
    assert (code, hub.stopped) == (ExitCode.FAILED, [])
    assert "kept for their logs" in lines[-1]
