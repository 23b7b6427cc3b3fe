"""Guards as a service, engine figures, the exposition and its server, recording and replay."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from console.base.absent import Absent
from console.base.errors import UsageError
from console.base.findings import Severity
from console.base.units import GIB
from console.boot.events import (
    ApiSeen,
    BootOpened,
    ContainerSeen,
    Event,
    RankRef,
    SmokeDone,
    StatsSeen,
)
from console.boot.reduce import opened, reduce
from console.boot.state import Phase
from console.cluster.model import Cluster, Node
from console.enginelog.metrics import parse_metrics
from console.files.event_codec import encode_event
from console.plan.model import Plan, RankPlan
from console.services.engine_figures import figures
from console.services.export import Exporter
from console.services.guard import GuardService, guard_orders, marker_text
from console.services.hub import LogLine, NodeView, Snapshot
from console.services.openmetrics import openmetrics
from console.services.recorder import Recorder
from console.services.replay import ReplayHub
from console.services.replay_rows import boot as boot_source
from console.services.replay_rows import recording
from console.telemetry.alarms import Alarm
from console.telemetry.frames import Frame
from console.telemetry.guard_policy import GuardPolicy
from console.telemetry.sample import (
    DiskRate,
    FileSystem,
    Gpu,
    GpuApp,
    Guard,
    GuardTrip,
    Memory,
    NetRate,
    Pressure,
    RdmaRate,
    Sample,
)
from console.transport.base import Completed, TransportError, Trouble
from tests.services.fakes import FakeFleet, FakeLink, ManualClock

CLUSTER = Cluster(
    "c", "c.toml", (Node("dgx1", "dgx1", fabric_address="10.0.0.1"), Node("dgx2", "dgx2", fabric_address="10.0.0.2"))
)
PLAN = Plan(
    "flash",
    "t",
    "",
    "flash-b11-x",
    11,
    "11",
    "i",
    "m",
    8000,
    600.0,
    "dgx1",
    (RankPlan(0, "dgx1", True, "c0", (), (), {}), RankPlan(1, "dgx2", False, "c1", (), (), {})),
)


# -- guards ---------------------------------------------------------------------------------------------------------


def test_each_rank_gets_its_own_orders() -> None:
    head, worker = (guard_orders(PLAN, r, CLUSTER, GuardPolicy()) for r in (0, 1))
    assert head["labels"] == {"nightdeck.deployment": "flash-b11-x", "nightdeck.rank": "0"}
    assert (head["health"], worker["health"]) == ([["127.0.0.1", 8000]], [["10.0.0.1", 8000]])
    assert (head["loading_floor_bytes"], head["serving_floor_bytes"]) == (4 * GIB, GIB)
    assert head["serving_after_s"] == 600.0


async def test_a_guard_that_cannot_run_is_an_answer_and_no_error() -> None:
    def first(argv: Sequence[str]) -> Completed | TransportError:
        orders = json.loads(argv[-1])
        row = {"deployment": orders["deployment"], "rank": orders["rank"], "running": True}
        return Completed(0, json.dumps(row).encode(), b"")

    def second(argv: Sequence[str]) -> Completed | TransportError:
        return Completed(127, b"", b"sh: 1: python3: not found\n")

    service = GuardService(FakeFleet([FakeLink("dgx1", first), FakeLink("dgx2", second)]), CLUSTER, GuardPolicy())
    found = await service.start(PLAN)
    assert isinstance(found["dgx1"], Guard) and found["dgx1"].running
    assert isinstance(found["dgx2"], Absent) and "python3: not found" in found["dgx2"].reason
    off = await service.start(PLAN, GuardPolicy(enabled=False))
    assert {type(v) for v in off.values()} == {Absent}


async def test_a_cut_node_and_a_garbled_answer_are_told_when_guards_are_asked() -> None:
    cut = FakeLink("dgx1", lambda argv: TransportError(Trouble.LOST, "the connection broke", node="dgx1"))
    noise = FakeLink("dgx2", lambda argv: Completed(0, b"motd\n", b""))
    service = GuardService(FakeFleet([cut, noise]), CLUSTER, GuardPolicy())
    ranks = [RankRef(0, "dgx1", "c0"), RankRef(1, "dgx2", "c1"), RankRef(2, "", "c2")]
    assert await service.serving("d", ranks) == {"dgx1": "the connection broke", "dgx2": "motd"}
    assert await service.status("dgx1") == Absent("the connection broke")
    assert isinstance(await service.marker("dgx2", "d", 0), Absent)
    assert await service.status("nowhere") == Absent("this cluster has no such node")


def test_a_marker_in_words_begins_as_the_cause_engine_expects() -> None:
    trip = GuardTrip(0.0, "loading", 4 * GIB, 3 * GIB, "", ("engine: timed out",), ((-1.0, 5 * GIB), (0.0, 3 * GIB)))
    lines = marker_text(trip, 5, "dgx6").splitlines()
    assert lines[0].startswith("TRIPPED: the memory guard on dgx6 killed rank 5 in vain (engine: timed out): 3.00 GiB")
    assert lines[1] == "1.0 s before: 5.0 GiB available"


# -- the engine's figures -------------------------------------------------------------------------------------------


def metrics(generated: int, drafts: int, accepted: int, ttft: float, count: int) -> bytes:
    label = '{engine="0",model_name="m"}'
    rows = {
        "vllm:num_requests_running": 2,
        "vllm:kv_cache_usage_perc": 0.25,
        "vllm:generation_tokens_total": generated,
        "vllm:spec_decode_num_drafts_total": drafts,
        "vllm:spec_decode_num_accepted_tokens_total": accepted,
        "vllm:time_to_first_token_seconds_sum": ttft,
        "vllm:time_to_first_token_seconds_count": count,
    }
    return "".join(f"{name}{label} {value}\n" for name, value in rows.items()).encode()


def test_figures_are_of_the_last_seconds_not_of_the_whole_night() -> None:
    first = parse_metrics(metrics(1000, 100, 300, 10.0, 10), at=100.0)
    assert figures(None, first)["acceptance_length"] == 4.0
    second = parse_metrics(metrics(1500, 200, 301, 14.0, 12), at=105.0)
    now = figures(first, second)
    assert now["generation_tokens_per_s"] == 100.0
    assert now["acceptance_length"] == pytest.approx(1.01)
    assert (now["ttft_s"], now["running"], now["kv_usage"]) == (2.0, 2, 0.25)
    assert not [k for k in now if k.endswith(("_total", "_sum_s", "_count"))]


def test_an_engine_that_started_anew_gives_no_rate() -> None:
    now = figures(parse_metrics(metrics(1000, 100, 300, 1, 1), at=1.0), parse_metrics(metrics(5, 1, 1, 1, 1), at=6.0))
    assert "generation_tokens_per_s" not in now


# -- the exposition -------------------------------------------------------------------------------------------------


def snapshot(*nodes: NodeView, alarms: tuple[Alarm, ...] = (), **more: Any) -> Snapshot:
    return Snapshot(1, 1000.0, CLUSTER, nodes, None, (), (), (), alarms=alarms, **more)


SAMPLE = Sample(
    "dgx1",
    1,
    0.0,
    0.0,
    0.0,
    memory=Memory(total_bytes=130_663_231_488, available_bytes=24 * GIB),
    gpus=(Gpu(0, util_percent=96.0, temp_c=64.0, clock_mhz=Absent("[N/A]")),),
    filesystems=(FileSystem('/data "x"\n\\', 10, 4),),
)
LINE = re.compile(r'^(nightdeck_[a-z0-9_]+)(?:\{((?:[a-z_]+="(?:[^"\\\n]|\\["\\n])*",?)*)\})? (-?[0-9.e+-]+)$')


def test_the_exposition_is_open_metrics() -> None:
    fresh = NodeView(CLUSTER.nodes[0], "fresh", 0.5, SAMPLE)
    lost = NodeView(CLUSTER.nodes[1], "lost", 60.0, replace(SAMPLE, node="dgx2"))
    alarm = Alarm(1, "xid", Severity.BLOCK, "dgx1", "x", 0.0)
    text = openmetrics(snapshot(fresh, lost, alarms=(alarm, replace(alarm, cleared_at=1.0))), 1000.0).decode()
    assert text.endswith("# EOF\n") and text.count("# EOF") == 1
    seen: list[str] = []
    family = ""
    for line in text.splitlines()[:-1]:
        if line.startswith("# TYPE "):
            family = line.split()[2]
            assert family not in seen, "a family is in one piece"
            seen.append(family)
        elif line.startswith("# UNIT "):
            assert family.endswith("_" + line.split()[3])
        elif not line.startswith("# HELP "):
            found = LINE.match(line)
            assert found is not None and found[1] == family, line
    assert 'nightdeck_node_up{node="dgx2"} 0' in text
    assert 'nightdeck_node_memory_available_bytes{node="dgx1"} 25769803776' in text
    assert 'memory_available_bytes{node="dgx2"' not in text and "clock" not in text
    assert 'path="/data \\"x\\"\\n\\\\"' in text
    assert text.count("nightdeck_alarm_active{") == 1


def everything(node: str) -> Sample:
    """A sample in which all that can be known is known, and names are as bad as they come."""
    return Sample(
        node,
        1,
        0.0,
        0.0,
        0.0,
        uptime_s=90.0,
        clock_offset_s=-0.25,
        memory=Memory(
            total_bytes=100, available_bytes=40, free_bytes=30, cached_bytes=20, buffers_bytes=5, shmem_bytes=15,
            swap_total_bytes=9, swap_free_bytes=2, swap_in_bytes_s=1.5, swap_out_bytes_s=Absent("one sample"),
        ),
        psi_io=Pressure(some60=50.0, full60=25.0),
        gpus=(
            Gpu(0, util_percent=96.0, temp_c=64.0, clock_mhz=Absent("[N/A]"), throttle=("sw_power_cap",)),
            Gpu(1, util_percent=Absent("Not Supported")),
        ),
        gpu_apps=(GpuApp(1, "VLLM::Worker", 3), GpuApp(2, "VLLM::Worker", 4), GpuApp(3, "x", Absent("[N/A]"))),
        net=(
            NetRate("eth0", rx_bytes_s=1.0, errors_total=7, drops_total=-1, speed_mbit=200_000, operstate="up"),
            NetRate("eth0", rx_bytes_s=2.0, errors_total=8),
        ),
        rdma=(RdmaRate("mlx5_0:1", state="DOWN", rate_gbit=200.0, error_totals={"link_downed": 3}),),
        disks=(DiskRate("nvme0n1", read_bytes_s=4.0),),
        filesystems=(FileSystem('/data "x"\n\\', 10, 4), FileSystem("/nas", Absent("no answer"), Absent("no answer"))),
    )  # fmt: skip


def test_a_prometheus_reads_every_figure_with_its_unit_and_none_that_is_not_known() -> None:
    snap = snapshot(NodeView(CLUSTER.nodes[0], "fresh", 0.5, everything("dgx1")))
    figures: dict[tuple[str, str], float] = {}
    for family in text_string_to_metric_families(openmetrics(snap, 1000.0).decode()):
        assert family.documentation
        for sample in family.samples:
            rest = " ".join(v for k, v in sample.labels.items() if k != "node")
            assert sample.labels["node"] == "dgx1" and (sample.name, rest) not in figures
            figures[sample.name.removeprefix("nightdeck_"), rest] = sample.value
    assert figures == {
        ("node_up", ""): 1,
        ("node_sample_age_seconds", ""): 0.5,
        ("node_memory_total_bytes", ""): 100,
        ("node_memory_available_bytes", ""): 40,
        ("node_memory_free_bytes", ""): 30,
        ("node_memory_page_cache_bytes", ""): 10,
        ("node_memory_shared_bytes", ""): 15,
        ("node_swap_total_bytes", ""): 9,
        ("node_swap_used_bytes", ""): 7,
        ("node_swap_read_bytes_per_second", ""): 1.5,
        ("node_uptime_seconds", ""): 90,
        ("node_clock_offset_seconds", ""): -0.25,
        ("node_pressure_ratio", "io some"): 0.5,
        ("node_pressure_ratio", "io full"): 0.25,
        ("node_filesystem_total_bytes", '/data "x"\n\\'): 10,
        ("node_filesystem_available_bytes", '/data "x"\n\\'): 4,
        ("node_filesystem_answers", '/data "x"\n\\'): 1,
        ("node_filesystem_answers", "/nas"): 0,
        ("disk_read_bytes_per_second", "nvme0n1"): 4,
        ("gpu_utilization_ratio", "0"): 0.96,
        ("gpu_temperature_celsius", "0"): 64,
        ("gpu_throttled", "0 sw_power_cap"): 1,
        ("gpu_process_memory_bytes", "VLLM::Worker"): 7,
        ("network_receive_bytes_per_second", "eth0"): 1,
        ("network_speed_bytes_per_second", "eth0"): 25e9,
        ("network_up", "eth0"): 1,
        ("network_errors_total", "eth0"): 7,
        ("rdma_speed_bytes_per_second", "mlx5_0:1"): 25e9,
        ("rdma_up", "mlx5_0:1"): 0,
        ("rdma_errors_total", "mlx5_0:1 link_downed"): 3,
    }


async def fetch(port: int, request: bytes) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(request)
    async with asyncio.timeout(10):
        data = await reader.read()
    writer.close()
    return data


async def test_the_server_answers_what_it_knows_and_survives_the_rest() -> None:
    async with Exporter(lambda: b"x 1\n# EOF\n", "127.0.0.1", 0) as server:
        answer = await fetch(server.port, b"GET /metrics?a=b HTTP/1.1\r\nHost: x\r\n\r\n")
        head, _, body = answer.partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 200") and body == b"x 1\n# EOF\n"
        assert b"application/openmetrics-text; version=1.0.0; charset=utf-8" in head
        assert (await fetch(server.port, b"GET /etc/passwd HTTP/1.1\r\nHost: x\r\n\r\n")).startswith(b"HTTP/1.1 404")
        assert (await fetch(server.port, b"POST /metrics HTTP/1.1\r\nHost: x\r\n\r\n")).startswith(b"HTTP/1.1 405")
        older = await fetch(server.port, b"GET /metrics HTTP/1.1\r\nHost: x\r\nAccept: text/plain\r\n\r\n")
        assert b"Content-Type: text/plain; version=0.0.4" in older
        head_only = await fetch(server.port, b"HEAD /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
        assert head_only.endswith(b"\r\n\r\n")
        assert await fetch(server.port, b"\x16\x03\x01 not http\r\n\r\n") == b""
        assert await fetch(server.port, b"GET /" + b"a" * 40_000) == b""
        with pytest.raises(UsageError, match="cannot listen"):
            async with Exporter(lambda: b"", "127.0.0.1", server.port):
                pass
        assert server.served == 3


async def test_a_hundred_scrapes_at_once_are_all_answered_and_made_once() -> None:
    made = 0

    def text() -> bytes:
        nonlocal made
        made += 1
        return b"x 1\n" * 20_000 + b"# EOF\n"

    async with Exporter(text, "127.0.0.1", 0) as server:
        answers = await asyncio.gather(
            *(fetch(server.port, b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n") for _ in range(100))
        )
    assert all(a.startswith(b"HTTP/1.1 200") and a.endswith(b"# EOF\n") and len(a) > 80_000 for a in answers)
    assert server.served == 100 and made <= 20


# -- recording and replay -------------------------------------------------------------------------------------------

RANKS = (RankRef(0, "dgx1", "c0"), RankRef(1, "dgx2", "c1"))
OPENING = BootOpened(1_800_000_001.0, "d", 11, "flash", "t", "", "dgx1", RANKS, 1_800_000_001.0, 600.0, 8000, "m")
EVENTS: tuple[Event, ...] = (
    OPENING,
    ContainerSeen(1_800_000_002.0, 0, "running"),
    ContainerSeen(1_800_000_003.0, 1, "running"),
    StatsSeen(1_800_000_004.0, {"running": 1.0}),
    ApiSeen(1_800_000_050.0, "healthy"),
    SmokeDone(1_800_000_060.0, True, "Paris"),
    ContainerSeen(1_800_000_090.0, 1, "exited", 137, finished_at=1_800_000_090.0),
)


def record(path: Path) -> ManualClock:
    """A session of 100 s: a frame a second, a boot, a log of rank 0 told twice (as after a switch of view)."""
    clock = ManualClock()
    told: list[str] = []
    recorder = Recorder(path, CLUSTER, clock, told.append)
    start, left = clock.now, list(EVENTS)
    for second in range(100):
        clock.now = start + second
        meminfo = f"MemTotal: 127600812 kB\nMemAvailable: {(100 - second) << 20} kB\n"
        host = {"meminfo": meminfo, "boot_id": "b\n", "why": {}}
        recorder.frame("dgx1", Frame(second + 1, {"part": "all", "t": float(second), "host": host, "self": {"pid": 1}}))
        while left and left[0].at <= clock.now:
            recorder.event("d", left.pop(0))
        if second in (5, 6):
            recorder.lines("d", [LogLine(0, 0, "dgx1", n, clock.now, "INFO", "", f"line {n}") for n in range(second)])
        if second == 95:
            recorder.trouble("dgx2", "refused", "connection refused")
    recorder.close()
    assert told == []
    return clock


async def test_a_replay_is_what_was(tmp_path: Path) -> None:
    path = tmp_path / "night.rec"
    record(path)
    hub = ReplayHub(recording(path), ManualClock(0.0))
    await hub.seek(70.0)
    snap = hub.snapshot()
    assert snap.boot is not None and snap.boot.phase is Phase.READY and snap.boot.stats == {"running": 1.0}
    assert (snap.boot.smoke_text, hub.now()) == ("Paris", 1_800_000_070.0)
    assert [line.text for line in hub.log(0).lines] == [f"line {n}" for n in range(6)]
    node = snap.nodes[0]
    assert isinstance(node.sample, Sample) and node.sample.memory.available_bytes == 30 << 30
    assert snap.lowest is not None and snap.lowest.node == "dgx1"
    assert hub.series("dgx1", "mem_available", seconds=60, points=6)[-1] is not None
    await hub.seek(99.0)
    snap = hub.snapshot()
    assert snap.boot is not None and snap.boot.ranks[1].exit_code == 137
    assert (snap.nodes[1].trouble, snap.nodes[1].why) == ("refused", "connection refused")
    assert "rank-died" in [a.code for a in snap.alarms]
    await hub.seek(10.0)
    back = hub.snapshot()
    assert back.boot is not None and back.boot.phase is Phase.BOOTING and back.alarms == ()


async def test_a_jump_goes_from_one_telling_event_to_the_next(tmp_path: Path) -> None:
    path = tmp_path / "night.rec"
    record(path)
    hub = ReplayHub(recording(path), ManualClock(0.0))
    stops = []
    while name := await hub.jump():
        stops.append((name, hub.position))
    assert [n for n, _ in stops] == ["BootOpened", "ContainerSeen", "ContainerSeen", "SmokeDone", "ContainerSeen"]
    assert [p for _, p in stops] == [1.0, 2.0, 3.0, 60.0, 90.0]
    assert hub.ended


async def test_it_plays_at_its_speed_and_stands_still_when_paused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "night.rec"
    record(path)
    clock = ManualClock(0.0)
    hub = ReplayHub(recording(path), clock, speed=10.0)
    moved = asyncio.Event()
    hub.subscribe(moved.set)
    monkeypatch.setattr("console.services.replay.BEAT_S", 0.0)
    await hub.start()
    async with asyncio.timeout(60):
        while hub.index is None:
            moved.clear()
            await moved.wait()
    assert hub.index.total == 95.0
    clock.now += 2.0
    async with asyncio.timeout(60):
        while hub.position < 20.0:  # noqa: ASYNC110 (each turn of the loop is a beat of the replay)
            await asyncio.sleep(0)
    assert hub.position == pytest.approx(20.0)
    hub.pause()
    clock.now += 5.0
    for _ in range(10):
        await asyncio.sleep(0)
    assert hub.position == pytest.approx(20.0) and hub.replaying.paused
    hub.faster()
    assert hub.speed == 30.0
    await hub.close()


async def test_nothing_can_be_done_to_a_replay(tmp_path: Path) -> None:
    path = tmp_path / "night.rec"
    record(path)
    hub = ReplayHub(recording(path), ManualClock(0.0))
    assert hub.read_only
    for name in ("launch", "stop", "restart", "note", "smoke", "plan"):
        with pytest.raises(UsageError, match="replay"):
            await getattr(hub, name)("flash")
    with pytest.raises(UsageError):
        hub.save_log(None)


async def test_rows_of_a_newer_version_or_of_no_sense_are_passed_over(tmp_path: Path) -> None:
    from console.cluster.render import render_cluster
    from console.files.recording import RecordingWriter

    path = tmp_path / "x.rec"
    writer = RecordingWriter(path, {"started": 0.0, "cluster": render_cluster(CLUSTER)})
    for row in (
        [1, "frame", "dgx1", "x", {}],
        [2, "frame"],
        [3, "event", "d", {"type": "Nonsense"}],
        [4, "event", "d", 7],
        [5, "log", "d", [[1]]],
        [6, "window", [], {}],
        [7, "hologram", 1],
        ["8", "frame"],
        {"a": 1},
        [9, "event", "d", encode_event(OPENING)],
    ):
        writer.write(row, 0.0)
    writer.close()
    hub = ReplayHub(recording(path), ManualClock(0.0))
    await hub.seek(100.0)
    assert hub.snapshot().boot is not None


async def test_a_boot_of_the_ledger_is_played_from_its_folder(tmp_path: Path) -> None:
    start = OPENING.launched_at
    lines = [json.dumps(encode_event(e)) for e in EVENTS]
    (tmp_path / "events.jsonl").write_text("\n".join(lines) + '\n{"half')
    (tmp_path / "rank0.log").write_text(
        "2027-01-15T08:00:11.000000000Z (EngineCore pid=9) INFO 01-15 08:00:11 [core.py:1] one\n"
        "2027-01-15T08:01:00.000000000Z two\n"
    )
    window = {"at": start + 20, "s": 10, "node": "dgx1", "n": 10, "mem_available": [GIB, 2 * GIB], "mem_used": [5, GIB]}
    (tmp_path / "telemetry.jsonl").write_text(json.dumps(window) + "\n")
    hub = ReplayHub(boot_source(tmp_path), ManualClock(0.0))
    await hub.seek(30.0)
    snap = hub.snapshot()
    assert snap.boot is not None and snap.boot.number == 11
    assert [line.text.rpartition(" ")[2] for line in hub.log(0).lines] == ["one"]
    assert isinstance(snap.nodes[0].sample, Sample) and snap.nodes[0].sample.memory.available_bytes == GIB
    await hub.seek(100.0)
    assert len(hub.log(0).lines) == 2
    snap = hub.snapshot()
    assert snap.boot == _added_up()


def _added_up() -> object:
    state = opened(OPENING)
    for event in EVENTS[1:]:
        state = reduce(state, event)
    return state


def test_a_folder_without_events_cannot_be_played(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="kept no events"):
        boot_source(tmp_path)


def test_a_recorder_that_cannot_write_says_so_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from console.files.atomic import DiskError

    told: list[str] = []
    recorder = Recorder(tmp_path / "x", CLUSTER, ManualClock(), told.append)

    def full(row: object, now: float) -> None:
        raise DiskError("cannot be written: No space left on device", where="x")

    monkeypatch.setattr(recorder._writer, "write", full)
    recorder.event("d", OPENING)
    recorder.event("d", OPENING)
    assert len(told) == 1 and "No space left" in told[0]


def test_what_a_guard_did_lies_beside_the_ranks_log_and_is_the_cause(tmp_path: Path) -> None:
    from console.enginelog.diagnose import diagnose
    from console.files.boot_folder import BootFolder
    from console.files.evidence_folder import find_evidence
    from console.services.guard_log import GuardLog

    log = GuardLog()
    runs = Guard("d", 1, True, 0.0, 0.0, "loading", "not told otherwise", 4 * GIB, 9 * GIB, 8 * GIB, -1000, True)
    trip = GuardTrip(7.0, "loading", 4 * GIB, 3 * GIB, "engine", (), ((-1.0, 5 * GIB), (0.0, 3 * GIB)))
    ended = replace(runs, running=False, ended="its container ended", trip=trip)
    lines = [log.news("dgx2", g, 100.0 + n) for n, g in enumerate([runs, runs, replace(runs, at=3.0), ended, ended])]
    assert [bool(text) for text in lines] == [True, False, False, True, False]
    with BootFolder(tmp_path, 11) as folder:
        for _ in range(2):  # a second console tells it again
            for text in lines:
                if text:
                    folder.append_guard(1, text)
        folder.append_log(0, b"2026-11-30T03:00:00.000000000Z INFO one\n")
        folder.append_log(1, b"2026-11-30T03:00:00.000000000Z INFO one\n")
    text = (tmp_path / "rank1.guard").read_text()
    assert text.count("TRIPPED: the memory guard on dgx2 killed rank 1 through the container engine: 3.00 GiB") == 1
    assert "runs: floor 4.00 GiB while loading (not told otherwise), lowest so far 8.00 GiB" in text
    assert "has ended: its container ended" in text
    found = find_evidence([str(tmp_path)])
    cause = diagnose([], found.states, found.kernel, found.guard).cause
    assert cause is not None and (cause.cls, cause.rank) == ("guard_tripped", 1)
    assert cause.evidence[0].startswith("TRIPPED: the memory guard on dgx2")
