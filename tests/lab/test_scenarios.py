"""Every scenario shows what its line says, over the same wires that the product uses."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import asyncssh
import pytest

from console.base.errors import UsageError
from console.lab.clock import LabClock
from console.lab.machine import Machine
from console.lab.scenarios import SCENARIOS, scenario
from console.lab.world import LabNode, World

from .conftest import Make

ASK = json.dumps({"prompt": "Say something about experts", "max_tokens": 24}).encode()


def test_a_misspelt_scenario_names_the_nearest() -> None:
    with pytest.raises(UsageError, match="did you mean 'node-silent'"):
        scenario("node-silnt")
    assert all(s.summary and "\n" not in s.summary for s in SCENARIOS.values())


async def test_rank_dies_loading(bench: Make) -> None:
    b = await bench("rank-dies-loading")
    await b.launch()
    await b.until("dgx6", "t1-r5", b"SafetensorError: Error while deserializing header")
    assert (await b.run("dgx6", "docker wait t1-r5")).stdout == "1\n"
    lines = await b.until("dgx1", "t1-r0", b"Engine core initialization failed")
    assert any(b"ncclRemoteError" in line for line in lines), "the head is a victim"
    assert not any(b"SafetensorError" in line for line in lines)
    assert (await b.run("dgx1", "docker wait t1-r0")).stdout == "1\n"
    assert (await b.run("dgx4", "docker wait t1-r3")).stdout == "0\n"


async def test_a_boot_of_four_loses_its_last_rank(bench: Make) -> None:
    """The scenario's own node, dgx6, takes no part in it."""
    b = await bench("rank-dies-loading", nodes=6)
    await b.launch(world=4)
    await b.until("dgx4", "t1-r3", b"SafetensorError: Error while deserializing header")
    assert (await b.run("dgx4", "docker wait t1-r3")).stdout == "1\n"


@pytest.mark.parametrize(("ranks", "used", "struck"), [(8, 8, 5), (4, 4, 3), (2, 0, 1), (1, 1, 0), (8, 0, 5)])
def test_each_fault_of_a_rank_strikes_one_that_is_there(ranks: int, used: int, struck: int) -> None:
    world = World(LabClock(1.0), scenario("rank-dies-loading"))
    nodes = [LabNode(f"dgx{n}", Machine(f"dgx{n}", n, world.clock), Path()) for n in range(1, 9)]
    world.nodes = {n.name: n for n in nodes}
    numbers = frozenset(range(1, used + 1))
    hit = [r for r in range(ranks) if world.strikes_rank("rank-dies-loading", nodes[r], r, ranks, numbers)]
    assert hit == [struck]
    assert not any(world.strikes_rank("node-cut", nodes[r], r, ranks, numbers) for r in range(ranks))


async def test_node_silent(bench: Make) -> None:
    b = await bench("node-silent", nodes=2)
    connection = await b.on("dgx2")
    await b.launch(world=2)
    await b.until("dgx1", "t1-r0", b"Completed | 40/48")
    assert b.lab.node("dgx2").silent
    late = asyncio.create_task(connection.run("echo alive"))
    await b.run("dgx1", "echo other")
    assert not late.done()
    late.cancel()
    with pytest.raises(asyncssh.ChannelOpenError, match="timed out"):
        await (await b.on("dgx1")).open_connection("10.99.0.2", 22)


async def test_node_cut_leaves_the_engine_alone(bench: Make) -> None:
    b = await bench("node-cut", nodes=2)
    connection = await b.on("dgx2")
    await b.launch(world=2)
    await asyncio.wait_for(connection.wait_closed(), 20)
    with pytest.raises(ConnectionRefusedError):
        await b.connect("dgx2")
    await b.ready()
    assert b"200 OK" in await b.ask("/v1/completions", ASK)


async def test_image_missing(bench: Make) -> None:
    b = await bench("image-missing")
    started = await b.launch()
    assert [r.exit_status for r in started] == [0, 0, 125] + [0] * 5
    assert "No such image: dsv41-flash:local" in str(started[2].stderr)
    assert (await b.run("dgx3", "docker image inspect dsv41-flash:local")).exit_status == 1
    saved = (await b.run("dgx1", "docker save dsv41-flash:local", encoding=None)).stdout
    loaded = await b.run("dgx3", "docker load", input=saved, encoding=None)
    assert loaded.stdout == b"Loaded image: dsv41-flash:local\n"
    ids = [(await b.run(n, "docker image inspect -f '{{.Id}}' dsv41-flash:local")).stdout for n in ("dgx1", "dgx3")]
    assert ids[0] == ids[1]


async def test_memory_collapse(bench: Make) -> None:
    b = await bench("memory-collapse", nodes=1)
    node = b.lab.node("dgx1")
    stopped = asyncio.Event()
    changed = node.on_change
    node.on_change = lambda: (changed(), stopped.set())[0]
    await b.launch(world=1)
    async with asyncio.timeout(20):
        await b.until("dgx1", "t1-r0", b"Completed | 16/48")
        await stopped.wait()  # the freeze has no line of its own: that is the point of it
    assert node.silent
    assert node.machine.available_gib() == pytest.approx(0.5)


async def test_garbage_answers(bench: Make) -> None:
    b = await bench("garbage-answers", nodes=1)
    await b.launch(world=1)
    await b.ready()
    answer = json.loads((await b.ask("/v1/completions", ASK)).split(b"\r\n\r\n", 1)[1])
    assert answer["choices"][0]["text"] == "\ufffd" + "care" * 23
    await b.until("dgx1", "t1-r0", b"Mean acceptance length: 1.00")


async def test_slow_weights_outlast_the_deadline(bench: Make) -> None:
    b = await bench("slow-weights", nodes=1)
    await b.launch(world=1, flags="--label nightdeck.ready_timeout_s=1")
    lines = await b.until("dgx1", "t1-r0", b"Completed | 48/48")
    moments = [float(line[17:26]) for line in (lines[0], lines[-1])]
    assert (moments[1] - moments[0]) % 60 > 1.5


async def test_half_stop(bench: Make) -> None:
    b = await bench("half-stop", nodes=2)
    await b.launch(world=2)
    stopped = await b.run("dgx2", "docker stop -t 5 t1-r1")
    assert stopped.exit_status == 1 and "did not receive an exit event" in str(stopped.stderr)
    removed = await b.run("dgx2", "docker rm -f t1-r1")
    assert removed.exit_status == 1 and "could not kill container" in str(removed.stderr)
    assert (await b.run("dgx2", "docker ps --format '{{.Names}}'")).stdout == "t1-r1\n"
    assert (await b.run("dgx1", "docker rm -f t1-r0")).exit_status == 0


async def test_oom_gate(bench: Make) -> None:
    b = await bench("oom-gate", nodes=2)
    await b.launch(world=2)
    await b.until("dgx2", "t1-r1", b"on startup is less than desired GPU memory utilization (0.91, 110.74 GiB)")
    assert (await b.run("dgx2", "docker wait t1-r1")).stdout == "1\n"


async def test_bad_flag(bench: Make) -> None:
    b = await bench("bad-flag", nodes=1)
    await b.launch(world=1)
    await b.until("dgx1", "t1-r0", b"error: unrecognized arguments:")
    assert (await b.run("dgx1", "docker wait t1-r0")).stdout == "2\n"


async def test_port_in_use(bench: Make) -> None:
    b = await bench("port-in-use", nodes=1)
    assert b"open-webui" in await b.ask("/health")
    await b.launch(world=1)
    await b.until("dgx1", "t1-r0", b"OSError: [Errno 98] Address already in use")
    assert (await b.run("dgx1", "docker wait t1-r0")).stdout == "1\n"


async def test_rendezvous_timeout(bench: Make) -> None:
    b = await bench("rendezvous-timeout", nodes=3)
    await b.launch(world=3)
    await b.until("dgx1", "t1-r0", b"Timed out after 601 seconds waiting for clients. 2/3 clients joined.")
    await b.until("dgx3", "t1-r2", b"DistNetworkError")
    assert (await b.run("dgx1", "docker wait t1-r0")).stdout == "1\n"


async def test_a_fast_lab_leaves_a_launcher_its_own_time(bench: Make) -> None:
    b = await bench(nodes=2, speed=4000)
    await b.launch(world=2, ranks=[1])
    await b.until("dgx2", "t1-r1", b"distributed_init_method")
    await b.lab.clock.sleep(700)  # longer than a rank waits at the store, in lab seconds; no time at all for a launcher
    await b.launch(world=2, ranks=[0])
    await b.ready()


async def test_worker_dies_serving(bench: Make) -> None:
    b = await bench("worker-dies-serving", nodes=2)
    await b.launch(world=2)
    await b.ready()
    assert (await b.run("dgx2", "docker wait t1-r1")).stdout == "137\n"
    assert b"200 OK" in await b.ask("/health")
    hanging = asyncio.create_task(b.ask("/v1/completions", ASK))
    assert b"200 OK" in await b.ask("/health")
    assert not hanging.done()
    await b.until("dgx1", "t1-r0", b"RPC call to sample_tokens timed out")
    hanging.cancel()


async def test_hostile(bench: Make) -> None:
    b = await bench("hostile", nodes=3)
    await b.launch(world=3)
    lines = await b.until("dgx3", "t1-r2", b"noise 100 ")
    assert sum(map(len, lines)) > 10 << 20
    assert any(b"\xff\xfe" in line for line in lines) and any(b"\x1b[2J" in line for line in lines)
    labels = (await b.run("dgx3", "docker inspect -f '{{json .Config.Labels}}' hostile")).stdout
    assert "\x1b" in json.loads(str(labels))["nightdeck.recipe"]


async def test_clock_latch(bench: Make) -> None:
    b = await bench("clock-latch", nodes=1)
    await b.launch(world=1)
    await b.until("dgx1", "t1-r0", b"JIT kernel warmup starting")
    query = "nvidia-smi --query-gpu=clocks.sm,power.draw,utilization.gpu --format=csv,noheader,nounits"
    clock, watts, _ = str((await b.run("dgx1", query)).stdout).split(", ")
    assert int(clock) < 1000 and float(watts) < 20


async def test_docker_dead(bench: Make) -> None:
    b = await bench("docker-dead", nodes=1)
    r = await b.run("dgx1", "docker ps")
    assert r.exit_status == 1 and "Cannot connect to the Docker daemon" in str(r.stderr)
    with pytest.raises(asyncssh.ChannelOpenError):
        await (await b.on("dgx1")).open_unix_connection("/var/run/docker.sock")


async def test_scenarios_change_while_the_lab_runs(bench: Make) -> None:
    b = await bench(nodes=3)
    connection = await b.on("dgx3")
    b.lab.choose("node-cut")
    await asyncio.wait_for(connection.wait_closed(), 10)
    b.lab.choose("docker-dead")
    (await b.connect("dgx3")).abort()
    assert b.lab.node("dgx3").engine.down
    b.lab.choose("healthy")
    assert not b.lab.node("dgx3").engine.down
    b.connections.clear()
    await b.launch(world=3)
    assert await b.lab.kill("dgx3") == 1
    assert (await b.run("dgx3", "docker wait t1-r2")).stdout == "137\n"
    with pytest.raises(UsageError, match="no node 'dgx9'"):
        await b.lab.kill("dgx9")
