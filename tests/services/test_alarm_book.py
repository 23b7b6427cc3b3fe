"""The alarm book over samples, events and time; the ways out, one by one."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Coroutine
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from console.base.absent import Absent
from console.base.errors import UsageError
from console.base.findings import Severity
from console.base.units import GIB
from console.boot.events import BootOpened, ContainerSeen, DeadlinePassed, Event, RankRef, SmokeDone, StopStarted
from console.boot.reduce import opened, reduce
from console.boot.state import BootState
from console.cluster.model import Node
from console.services.alarms import AlarmBook
from console.services.hub import NodeView
from console.services.ways_out import (
    CommandWay,
    TerminalWay,
    WayError,
    WebhookWay,
    make_ways,
    notification,
    send,
)
from console.telemetry.alarm_rules import AlarmPolicy, WaysPolicy
from console.telemetry.alarms import Alarm
from console.telemetry.sample import KernelLine, Memory, RdmaRate, Sample
from tests.services.fakes import ManualClock

ALARM = Alarm(7, "memory-low", Severity.WARN, "dgx1", "dgx1: low\x1b[2J", 1_800_000_000.0, "dgx1")


class Ear:
    """A way out that remembers, or fails."""

    def __init__(self, name: str = "command", why: str = "") -> None:
        self.name, self.why, self.heard = name, why, list[tuple[str, bool]]()

    @property
    def where(self) -> str:
        return "ear"

    async def send(self, alarm: Alarm) -> None:
        if self.why:
            raise WayError(self.why)
        self.heard.append((alarm.code, alarm.active))


class Book:
    def __init__(self, *ways: Ear, policy: AlarmPolicy | None = None) -> None:
        self.clock = ManualClock()
        self.tasks: list[asyncio.Task[Any]] = []
        self.book = AlarmBook(policy or AlarmPolicy(), ways, self.clock, self.spawn)

    def spawn(self, name: str, work: Coroutine[Any, Any, Any]) -> None:
        self.tasks.append(asyncio.get_running_loop().create_task(work, name=name))

    async def settle(self) -> None:
        for _ in range(5):
            await asyncio.sleep(0)

    async def close(self) -> None:
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)

    def codes(self) -> list[str]:
        return [a.code for a in self.book.all if a.active]

    def sample(self, available: float = 50 * GIB, **more: Any) -> None:
        self.clock.now += 1.0
        sample = Sample("dgx1", 1, self.clock.now, 0.0, 0.0, memory=Memory(available_bytes=int(available)))
        self.book.sampled(replace(sample, **more), 1e9)


async def test_memory_is_told_once_and_again_when_it_is_back() -> None:
    ear = Ear()
    it = Book(ear)
    for _ in range(5):
        it.sample(3 * GIB)
    it.sample(4.5 * GIB)
    it.sample(6 * GIB)
    await it.settle()
    assert ear.heard == [("memory-low", True), ("memory-low", False)]
    assert it.book.all[0].text == "dgx1: less than 4 GiB of memory available (3.0 GiB)"
    await it.close()


async def test_a_person_is_called_only_when_something_begins_and_not_for_small_things() -> None:
    bell = Ear("bell")
    it = Book(bell)
    it.book.happen("ready", "boot 1", "boot 1 is ready")
    it.sample(3 * GIB)
    it.sample(6 * GIB)
    await it.settle()
    assert bell.heard == [("memory-low", True)]
    await it.close()


async def test_kernel_lines_are_told_once_also_when_the_probe_starts_anew() -> None:
    it = Book()
    xid = KernelLine(1, 5.0, "NVRM: Xid (PCI:000f:01:00): 31, pid=7")
    it.sample(kernel=(xid,))
    it.sample(kernel=(xid,))
    assert [(a.code, a.count) for a in it.book.all] == [("xid", 1)]
    it.sample(kernel=())
    it.clock.now += 700
    it.book.tick([])
    it.sample(kernel=(KernelLine(1, 900.0, "Out of memory: Killed process 7 (vllm)"),))
    assert it.codes() == ["kernel-oom"]


async def test_a_port_that_retries_a_little_is_no_alarm() -> None:
    it = Book()
    it.sample(rdma=(RdmaRate("roce0:1", errors={"out_of_sequence": 3}),))
    assert it.codes() == []
    it.sample(rdma=(RdmaRate("roce0:1", errors={"link_downed": 1, "out_of_sequence": 3}),))
    assert it.book.all[0].text == "dgx1 roce0:1: link_downed +1"
    it.clock.now += 61
    it.book.tick([])
    assert it.codes() == []


async def test_a_node_is_lost_after_ten_seconds_and_says_why() -> None:
    it = Book()
    node = Node("dgx1", "dgx1")

    def view(age: float, why: str = "") -> NodeView:
        return NodeView(node, "late", age, Absent("x"), "refused", why)

    it.book.tick([view(9.0, "connection refused")])
    assert it.codes() == []
    it.book.tick([view(11.0, "connection refused")])
    assert it.book.all[0].text == "dgx1: connection refused"
    it.book.tick([view(1.0)])
    assert it.codes() == []
    it.clock.now += 12
    it.book.tick([NodeView(node, "waiting", Absent("no sample yet"), Absent("x"))])
    assert it.codes() == ["node-lost"]


def boot(*events: Event) -> BootState:
    ranks = (RankRef(0, "dgx1", "c0"), RankRef(1, "dgx2", "c1"))
    opening = BootOpened(0.0, "d", 11, "flash", "t", "", "dgx1", ranks, 0.0, 3600.0, 8000, "m")
    state = opened(opening)
    for event in events:
        state = reduce(state, event)
    return state


async def test_a_boot_that_fails_is_told_with_its_rank_and_a_stop_ends_it_all() -> None:
    it = Book()
    died = ContainerSeen(5.0, 1, "exited", 137, finished_at=5.0)
    it.book.heard(boot(died), died)
    assert set(it.codes()) == {"rank-died", "boot-failed"}
    assert "boot 11 rank 1 on dgx2 ended with exit code 137" in [a.text for a in it.book.all]
    stop = StopStarted(6.0, "op")
    it.book.heard(boot(died, stop), stop)
    assert it.codes() == []


async def test_ready_deadline_and_a_bad_answer() -> None:
    it = Book()
    up = [ContainerSeen(1.0, r, "running") for r in (0, 1)]
    passed = DeadlinePassed(3600.0)
    it.book.heard(boot(*up, passed), passed)
    assert it.codes() == ["deadline-passed"]
    bad = SmokeDone(4000.0, False, "aaa", "it repeats itself")
    it.book.heard(boot(*up, passed, bad), bad)
    assert it.codes() == ["serving-bad", "deadline-passed"]


async def test_the_deadline_is_near_only_for_a_boot_that_is_not_ready() -> None:
    it = Book()
    it.clock.now = 3400.0
    it.book.boots([boot()])
    assert it.codes() == ["deadline-near"]
    it.book.boots([replace(boot(), phase=boot().phase.READY)])
    assert it.codes() == []


@pytest.mark.parametrize(
    ("deadline_s", "left", "near"),
    [(300.0, 299.0, False), (300.0, 31.0, False), (300.0, 29.0, True), (7200.0, 400.0, False), (7200.0, 299.0, True)],
)
async def test_a_deadline_is_near_in_its_last_tenth_or_five_minutes(deadline_s: float, left: float, near: bool) -> None:
    it = Book()
    state = replace(boot(), deadline_s=deadline_s)
    it.clock.now = state.launched_at + deadline_s - left
    it.book.boots([state])
    assert it.codes() == (["deadline-near"] if near else [])


async def test_a_way_that_fails_is_an_alarm_that_goes_out_by_the_others() -> None:
    broken, ear = Ear("webhook", "it answered 500"), Ear("command")
    it = Book(broken, ear)
    it.sample(3 * GIB)
    await it.settle()
    await it.settle()
    assert "way-failed" in it.codes()
    assert it.book.all[0].text == "alarms do not get out by webhook (ear): it answered 500"
    assert ("way-failed", True) in ear.heard
    broken.why = ""
    assert await it.book.test() == {"webhook": "", "command": ""}
    assert "way-failed" not in it.codes()
    with pytest.raises(UsageError, match="no way out named pager"):
        await it.book.test("pager")
    await it.close()


async def test_a_flood_for_a_hanging_way_is_dropped_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    class Hang(Ear):
        async def send(self, alarm: Alarm) -> None:
            await asyncio.Event().wait()

    it = Book(Hang("webhook"))
    for n in range(200):
        it.book.happen("rank-died", f"rank {n}", "x")
    await it.settle()
    assert "way-failed" in it.codes()
    await it.close()


# -- ways out -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("env", "style", "expected"),
    [
        ({"TERM": "xterm-256color"}, "auto", "\x1b]9;nightdeck: a, b\x1b\\"),
        ({"TERM": "foot"}, "auto", "\x1b]777;notify;nightdeck;a, b\x1b\\"),
        (
            {"TERM": "xterm-kitty"},
            "auto",
            "\x1b]99;i=nightdeck:d=0;nightdeck\x1b\\\x1b]99;i=nightdeck:p=body;a, b\x1b\\",
        ),
        ({"TERM": "xterm"}, "off", ""),
        (
            {"TERM": "tmux-256color", "TMUX": "/tmp/x,1,0"},
            "osc9",
            "\x1bPtmux;\x1b\x1b]9;nightdeck: a, b\x1b\x1b\\\x1b\\",
        ),
    ],
)
def test_terminals_are_spoken_to_in_their_own_way(env: dict[str, str], style: str, expected: str) -> None:
    assert notification(env, "nightdeck", "a; b", style) == expected


def test_an_alarms_text_cannot_leave_its_sequence() -> None:
    text = notification({"TERM": "foot"}, "n", "x\x07\x1b]52;c;ZXZpbA==\x07y\x9c", "auto")
    assert text.count("\x1b") == 2 and "\x07" not in text and "\x9c" not in text


async def test_the_terminal_gets_the_bell_and_a_broken_one_is_told() -> None:
    written: list[str] = []
    assert await send(TerminalWay("bell", written.append, style="off", env={}), ALARM) == ""
    assert written == ["\a"]

    def broken(text: str) -> None:
        raise OSError("no terminal")

    assert "no terminal" in await send(TerminalWay("bell", broken, style="off", env={}), ALARM)


@pytest.mark.parametrize(
    ("said", "rings", "why"),
    [("echo off", True, "allow-passthrough on"), ("echo on", False, ""), ("echo unknown >&2; exit 1", False, "")],
)
async def test_what_tmux_would_swallow_rings_the_bell_and_is_told(
    tmp_path: Path, said: str, rings: bool, why: str
) -> None:
    tmux = tmp_path / "tmux"
    tmux.write_text(f"#!/bin/sh\n{said}\n")
    tmux.chmod(0o755)
    env = {"TMUX": "/tmp/tmux-0/default,1,0", "PATH": f"{tmp_path}:/usr/bin:/bin", "TERM": "tmux-256color"}
    written: list[str] = []
    answer = await send(TerminalWay("terminal", written.append, style="osc9", env=env), ALARM, deadline_s=60)
    assert why in answer
    assert bool(answer) is rings
    assert written == ["\a"] if rings else written[0].startswith("\x1bPtmux;\x1b\x1b]9;")
    bell: list[str] = []
    assert await send(TerminalWay("bell", bell.append, style="off", env=env), ALARM) == ""
    assert bell == ["\a"]


async def test_without_a_tmux_to_ask_the_notification_is_sent(tmp_path: Path) -> None:
    written: list[str] = []
    env = {"TMUX": "x", "PATH": str(tmp_path)}
    assert await send(TerminalWay("terminal", written.append, style="osc777", env=env), ALARM) == ""
    assert "777;notify" in written[0]


async def test_a_command_gets_the_alarm_on_standard_input_and_no_shell_sees_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    out = tmp_path / "out"
    alarm = replace(ALARM, text="$(touch pwned); `id`\n'")
    code = "import os,sys; open(sys.argv[1],'w').write(sys.stdin.read() + os.environ['NIGHTDECK_ALARM_TEXT'])"
    out.touch()
    before = os.listdir(tmp_path)
    assert await send(CommandWay([sys.executable, "-c", code, str(out)]), alarm) == ""
    line, _, env = out.read_text().partition("\n")
    assert json.loads(line)["text"] == alarm.text == env
    assert os.listdir(tmp_path) == before


@pytest.mark.parametrize(
    ("argv", "why"),
    [
        (["/nowhere/prog"], "cannot be started"),
        ([sys.executable, "-c", "import sys; sys.exit('no\\x1b[2J')"], "ended with 1: no"),
    ],
)
async def test_a_command_that_fails_says_how(argv: list[str], why: str) -> None:
    said = await send(CommandWay(argv), ALARM)
    assert why in said and "\x1b" not in said


async def test_a_command_that_hangs_is_ended_with_its_children(tmp_path: Path) -> None:
    code = "import subprocess,sys,time; subprocess.Popen(['sleep','600']); time.sleep(600)"
    assert await send(CommandWay([sys.executable, "-c", code]), ALARM, deadline_s=0.5) == "it took longer than 0 s"


async def test_a_webhook_posts_json_and_hides_its_secret() -> None:
    got: list[bytes] = []
    status = b"204 No Content"

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        size = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
        got.append(head + await reader.readexactly(size))
        writer.write(b"HTTP/1.1 " + status + b"\r\nContent-Length: 0\r\n\r\n")
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    way = WebhookWay(f"http://127.0.0.1:{port}/services/T0/SECRETWORD")
    assert await send(way, ALARM) == ""
    head, _, body = got[0].partition(b"\r\n\r\n")
    assert head.startswith(b"POST /services/T0/SECRETWORD HTTP/1.1")
    assert json.loads(body)["code"] == "memory-low" and json.loads(body)["text"] == "nightdeck: dgx1: low"
    assert "SECRET" not in way.where
    status = b"500 Sorry"
    assert await send(way, ALARM) == "it answered 500"
    server.close()
    await server.wait_closed()
    said = await send(way, ALARM)
    assert said.startswith("no answer: ") and "SECRET" not in said


@pytest.mark.parametrize(
    "url",
    [
        "http://example.com/x",
        "https://user:pw@example.com/x",
        "ftp://x/y",
        "https://",
        "not a url",
        "https://h:99999/x",
        "https://a..b/x",
        f"https://{'a' * 64}.example.com/x",
    ],
)
async def test_addresses_that_are_not_safe_are_refused(url: str) -> None:
    way = WebhookWay(url)
    assert way.wrong and await send(way, ALARM) == way.wrong
    assert "pw" not in way.where


async def test_a_way_that_breaks_is_told_and_ends_nothing() -> None:
    class Broken:
        name = where = "broken"

        async def send(self, alarm: Alarm) -> None:
            raise KeyError("word of its own")

    assert await send(Broken(), ALARM) == "it broke: KeyError"


def test_the_ways_are_those_that_the_settings_name() -> None:
    policy = WaysPolicy(True, "auto", ("x",), "https://h/x")
    assert [w.name for w in make_ways(policy, write=lambda _: None, env={})] == [
        "bell",
        "terminal",
        "command",
        "webhook",
    ]
    assert [w.name for w in make_ways(policy, write=None, env={})] == ["command", "webhook"]
