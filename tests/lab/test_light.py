"""A light lab answers probes itself: the same frames as the probe that really runs, and a hundred nodes come and go."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from console.base.absent import known
from console.lab.lab import RUN_PROBES, Lab, LabConfig
from console.lab.layout import discard
from console.lab.light import order_of
from console.probe import telemetry_program
from console.services.lease_program import EXPIRE_S, PROGRAM, WATCHER
from console.services.scripts import census_argv
from console.telemetry.frames import Bad, Frame, FrameReader
from console.telemetry.launch import ProbeOptions, order_census, probe_argv
from console.telemetry.sampler import Sampler
from console.transport.quoting import command_line
from console.transport.wrapper import wrapped
from tests.lab.conftest import FAST, Bench

RANK = (
    "docker run -d --name t-r0 --label nightdeck.rank=0 --label nightdeck.deployment=t --pull never --gpus all "
    "--network host dsv41-flash:local deepseek-ai/DeepSeek-V4.1-Flash --tensor-parallel-size 1 --port 8000"
)
# What a frame says of the probe itself, of moments, or of what another node has: not of its shape.
LOOK = ["sh", "-c", PROGRAM, "nightdeck-lease", "ann@desk", "look", WATCHER, f"{EXPIRE_S:.0f}"]


@asynccontextmanager
async def lab_of(folder: Path, nodes: int, light: bool | None, scenario: str = "healthy") -> AsyncIterator[Bench]:
    lab = Lab(LabConfig(folder, nodes=nodes, speed=FAST, light=light, scenario=scenario))
    await lab.start()
    bench = Bench(lab)
    try:
        yield bench
    finally:
        for connection in bench.connections.values():
            connection.abort()
        await lab.close()


async def heard(bench: Bench, wanted: int) -> tuple[list[Frame], Frame]:
    """So many frames of a probe, one of which sees the container, and the answer to a census."""
    argv, program = probe_argv(telemetry_program(), ProbeOptions(interval_s=0.2, procs_every_s=0.3))
    process = await (await bench.on("dgx1")).create_process(command_line(argv), encoding=None)
    process.stdin.write(program)
    reader, frames, census = FrameReader(), [], None
    asked = False
    async with asyncio.timeout(30):
        while census is None:
            for item in reader.feed(await process.stdout.read(1 << 16)):
                assert not isinstance(item, Bad)
                if item.data["part"] == "census":
                    census = item
                elif item.data["part"] == "all":
                    frames.append(item)
            if len(frames) >= wanted and not asked:
                asked = True
                process.stdin.write(order_census(3))
    process.stdin.write_eof()
    await process.wait_closed()
    return frames, census


def shape(value: Any) -> Any:
    """Names and types; of a list its first element, of numbers only that they are."""
    if isinstance(value, dict):
        return {key: shape(v) for key, v in value.items()}
    if isinstance(value, list):
        return [shape(value[0])] if value else []
    return "number" if isinstance(value, int | float) and not isinstance(value, bool) else type(value).__name__


async def test_its_frames_are_those_of_the_probe(tmp_path: Path) -> None:
    said = []
    for light in (True, False):
        async with lab_of(tmp_path / str(light), 1, light) as bench:
            assert (await bench.run("dgx1", RANK)).exit_status == 0
            frames, census = await heard(bench, 8)
            running = len(bench.lab._executor._running)
            assert running == 0, "a probe ends with its input"
            last = frames[-1].data
            mounts = last["fs"].pop("rows")
            assert sorted(row["kind"] for row in mounts.values()) == ["ext4", "nfs4"]
            assert mounts["/"]["total"] > mounts["/"]["available"] > 0
            for row in last["containers"]["rows"]:
                row.pop("cpu_s", None), row.pop("mem", None)  # once its processes were looked at
            for name in ("gpu", "apps"):
                last[name].pop("said", None)
            last["apps"]["rows"] = []
            sampler = Sampler("dgx1")
            samples = [sampler.step(f, received_at=i * 0.2, wall=1e9 + i) for i, f in enumerate(frames)]
            told = {n: known(getattr(samples[-1], n)) for n in type(samples[-1]).__dataclass_fields__}
            said.append((shape(last), shape(census.data), told))
    (light_frame, light_census, light_told), (real_frame, real_census, real_told) = said
    assert light_frame == real_frame
    assert light_census == real_census
    assert light_told == real_told
    assert light_frame["containers"]["rows"], "the container is in the frame"


async def test_it_answers_what_every_node_is_asked_again_and_again(tmp_path: Path) -> None:
    said = []
    for light in (True, False):
        async with lab_of(tmp_path / str(light), 1, light) as bench:
            await bench.run("dgx1", RANK)
            census = json.loads(str((await bench.run("dgx1", command_line(wrapped(census_argv("docker"))))).stdout))
            free = (await bench.run("dgx1", command_line(wrapped(LOOK)))).stdout
            said.append((shape(census), free))
            holder = await (await bench.on("dgx1")).create_process(
                command_line(["sh", "-c", PROGRAM, "nightdeck-lease", "bob@desk", "hold", WATCHER, "30"])
            )
            assert str(await holder.stdout.readline()).startswith("held")
            busy = str((await bench.run("dgx1", command_line(wrapped(LOOK)))).stdout)
            assert busy.splitlines() == ["busy", "bob@desk"]
            holder.stdin.write_eof()
    assert said[0] == said[1] and said[0][1] == "free\n"


async def test_many_nodes_come_and_go_without_a_process_each(tmp_path: Path) -> None:
    async with lab_of(tmp_path / "lab", RUN_PROBES + 4, None) as bench:
        frames, _ = await heard(bench, 2)
        assert [f.data["seq"] for f in frames[:2]] == [1, 2]
        node = bench.lab.node("dgx1")
        process = await (await bench.on("dgx1")).create_process(
            command_line(probe_argv(b"", ProbeOptions(interval_s=0.1))[0]), encoding=None
        )
        await process.stdout.readline()
        node.freeze()  # nothing comes from a node that stands still
        bench.lab.node("dgx2").cut_off()
        assert not bench.lab._executor._running, "no process a node"
        began = time.process_time()
    assert time.process_time() - began < 2.0, "its end costs little, whoever is still connected"
    assert not bench.lab._executor._probes


def test_only_the_probe_is_answered() -> None:
    argv, _ = probe_argv(b"12345", ProbeOptions())
    order = order_of(command_line(argv))
    assert order is not None and (order.program, order.paths) == (5, ("/",))
    for other in (None, "uptime", "echo nightdeck-probe", "python3 -c 'nightdeck-probe' x", 'x "nightdeck-probe'):
        assert order_of(other) is None
    assert order_of(command_line(probe_argv(b"", ProbeOptions(container_cli="podman"))[0])) is None


def test_a_lab_s_folder_is_out_of_the_way_at_once(tmp_path: Path) -> None:
    folder = tmp_path / "a" / "lab"
    (folder / "dgx1/proc").mkdir(parents=True)
    discard(folder, 0.0)  # whatever the disk does
    assert not folder.exists()
    other = tmp_path / "b" / "lab"
    (other / "dgx1").mkdir(parents=True)
    discard(other, 30.0)
    discard(other)
    assert list(other.parent.iterdir()) == []
