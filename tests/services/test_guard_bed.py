"""The memory guard on hosts with a memory limit: it is faster than the kernel, needs nobody, and harms no one else."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from console.assemble import SystemClock
from console.base.absent import Absent
from console.cluster.model import Cluster
from console.files.clusters import load_cluster
from console.plan.model import Plan, RankPlan
from console.services.guard import GuardService, marker_text
from console.telemetry.guard_policy import GuardPolicy
from console.telemetry.sample import Guard
from console.transport.pool import make_fleet
from tests.testbed import image, needs, processes
from tests.testbed.bed import Bed, BedUnavailable
from tests.testbed.host import Host

pytestmark = [pytest.mark.bed, pytest.mark.xdist_group("bed")]
TOP = Path(__file__).resolve().parents[2]
LXCFS = Path("/var/lib/lxcfs")
MIB = 1 << 20
FLOOR = 1024 * MIB
ROUNDS = int(os.environ.get("GUARD_ROUNDS", "100"))
# The product's own policy, with floors that fit hosts of 3 GB.
POLICY = GuardPolicy(loading_floor_gib=1.0, serving_floor_gib=0.25)
EATER = r"""
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
int main(int argc, char **argv) {   /* RATE and LIMIT in MiB (per second); then it holds what it has */
    long rate = atol(argv[1]), limit = argc > 2 ? atol(argv[2]) : 1 << 20, step = 8, have = 0;
    for (; have + step <= limit; have += step) {
        char *p = mmap(0, step << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        memset(p, 1, step << 20);
        usleep(1000000 * step / rate);
    }
    for (;;) pause();
}
"""


@pytest.fixture(scope="module")
def lxcfs() -> Iterator[None]:
    """/proc/meminfo as a control group sees it; what the bed binds into its hosts."""
    if (LXCFS / "proc/meminfo").exists():
        yield
        return
    tool = needs.tool("lxcfs")
    if tool is None or not Path("/dev/fuse").exists() or os.geteuid() != 0:
        pytest.skip("a host's own /proc/meminfo needs lxcfs and /dev/fuse")
    LXCFS.mkdir(parents=True, exist_ok=True)
    argv = [tool, "-f", "-p", f"/run/nightdeck-lxcfs-{os.getpid()}.pid", str(LXCFS)]
    daemon = subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        processes.until(lambda: (LXCFS / "proc/meminfo").exists(), 10, "lxcfs")
        yield
    finally:
        daemon.terminate()
        daemon.wait(10)


@pytest.fixture(scope="module")
def small(lxcfs: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bed]:
    if not Path("/sys/fs/cgroup/memory").is_dir():
        pytest.skip("a memory limit needs cgroup v1")
    folder = tmp_path_factory.mktemp("eater")
    (folder / "eat.c").write_text(EATER)
    compiler = needs.tool("cc")
    if compiler is None:
        pytest.skip("the eater needs a C compiler")
    subprocess.run([compiler, "-static", "-O1", "-o", folder / "eat", folder / "eat.c"], check=True)
    try:
        bed = Bed.up(2, mem="3000M", gpu=False, binds=((folder, Path("/srv/eater")),))
    except BedUnavailable as reason:
        pytest.skip(str(reason))
    yield bed
    bed.down()


@pytest.fixture
def bed(small: Bed) -> Iterator[Bed]:
    small.calm()
    yield small
    small.calm()


@pytest.fixture
def cluster(bed: Bed, tmp_path: Path) -> Cluster:
    return load_cluster(bed.cluster_toml(tmp_path / "cluster.toml"))


@pytest.fixture
async def service(cluster: Cluster) -> AsyncIterator[GuardService]:
    fleet = make_fleet(cluster, SystemClock())
    yield GuardService(fleet, cluster, POLICY)
    await fleet.close()


def plan_of(bed: Bed, deployment: str) -> Plan:
    host = bed[1]
    rank = RankPlan(0, host.name, True, f"nd-{deployment}-r0", (), (), {})
    return Plan("eat", "eat", "0" * 64, deployment, 1, "1", "i", "m", 8000, 600.0, host.name, (rank,))


def eat(host: Host, deployment: str, *words: str) -> None:
    labels = ["--label", f"nightdeck.deployment={deployment}", "--label", "nightdeck.rank=0"]
    mount = ["-v", "/srv/eater:/eater:ro", "--entrypoint", "/eater/eat", "--network", "host"]
    name = ["--name", f"nd-{deployment}-r0"]
    host.docker("run", "-d", "--pull", "never", *name, *labels, *mount, image.REFERENCE, *words)


def state(host: Host, deployment: str) -> dict[str, Any]:
    return dict(json.loads(host.docker("inspect", f"nd-{deployment}-r0").stdout)[0]["State"])


def marker(host: Host, deployment: str) -> dict[str, Any] | None:
    path = host.root / f"tmp/nightdeck-0/guard/{deployment}.r0/tripped.json"
    return dict(json.loads(path.read_text())) if path.exists() else None


def guards(host: Host) -> int:
    return len(host.pids("nightdeck-guard"))


def kernel_kills(host: Host) -> int:
    text = Path(f"/sys/fs/cgroup/memory/{host.cgroup}/memory.oom_control").read_text()
    return int(text.split("oom_kill ")[1].split()[0])


def wait(look: Callable[[], object], what: str, seconds: float = 90) -> None:
    processes.until(lambda: bool(look()), seconds, what)


def assert_killed_by_the_guard(host: Host, deployment: str, kills: int) -> dict[str, Any]:
    wait(lambda: marker(host, deployment) or kernel_kills(host) != kills, "the guard's marker")
    assert kernel_kills(host) == kills, "the kernel was faster"
    wait(lambda: state(host, deployment)["Status"] == "exited", "the container's end")
    told = marker(host, deployment)
    assert told is not None
    ended = state(host, deployment)
    assert (ended["ExitCode"], ended["OOMKilled"]) == (137, False)
    assert kernel_kills(host) == kills, "the kernel was faster"
    assert 0 < told["available_bytes"] < told["floor_bytes"] == FLOOR
    assert told["history"][-1] == [0.0, told["available_bytes"]]
    wait(lambda: guards(host) == 0, "the guard's end")
    return told


async def test_what_eats_a_gibibyte_a_second_is_stopped_before_the_kernel_must(bed: Bed, service: GuardService) -> None:
    host, kills = bed[1], kernel_kills(bed[1])
    bystander = ["--entrypoint", "/eater/eat", "-v", "/srv/eater:/eater:ro", "--network", "host"]
    host.docker("run", "-d", "--pull", "never", "--name", "bystander", *bystander, image.REFERENCE, "100", "80")
    found = await service.start(plan_of(bed, "eat-b1"))
    assert isinstance(guard := found[host.name], Guard) and guard.running
    assert guard.oom_score_adj in (-1000, 0)  # 0 where not even root may ask to be passed by
    eat(host, "eat-b1", "1024")
    told = assert_killed_by_the_guard(host, "eat-b1", kills)
    assert told["killed_by"] == "engine" and told["stage"] == "loading"
    assert json.loads(host.docker("inspect", "bystander").stdout)[0]["State"]["Status"] == "running"
    trip = await service.marker(host.name, "eat-b1", 0)
    assert trip is not None and not isinstance(trip, Absent)
    assert "TRIPPED: the memory guard on spark1 killed rank 0 through the container engine" in marker_text(
        trip, 0, "spark1"
    )


async def test_it_needs_no_link(bed: Bed, service: GuardService) -> None:
    host, kills = bed[1], kernel_kills(bed[1])
    await service.start(plan_of(bed, "cut-b1"))
    host.cut()
    try:
        eat(host, "cut-b1", "1024")
        assert_killed_by_the_guard(host, "cut-b1", kills)
    finally:
        host.heal()


def test_it_outlives_the_console_that_started_it(bed: Bed, tmp_path: Path) -> None:
    host, kills = bed[1], kernel_kills(bed[1])
    file = bed.cluster_toml(tmp_path / "cluster.toml")
    program = f"""
import asyncio, pathlib
from console.assemble import SystemClock
from console.files.clusters import load_cluster
from console.services.guard import GuardService
from console.transport.pool import make_fleet
from tests.services.test_guard_bed import POLICY, plan_of
class Named:
    name = "spark1"
async def main():
    cluster = load_cluster(pathlib.Path({str(file)!r}))
    service = GuardService(make_fleet(cluster, SystemClock()), cluster, POLICY)
    print((await service.start(plan_of([None, Named], "dead-b1")))["spark1"].running, flush=True)
    await asyncio.sleep(600)
asyncio.run(main())
"""
    console = subprocess.Popen([sys.executable, "-c", program], cwd=TOP, stdout=subprocess.PIPE, text=True)
    assert console.stdout is not None
    assert console.stdout.readline() == "True\n"
    console.send_signal(signal.SIGKILL)
    console.wait(10)
    eat(host, "dead-b1", "1024")
    assert_killed_by_the_guard(host, "dead-b1", kills)


@pytest.mark.slow
async def test_a_hung_engine_does_not_save_the_container(bed: Bed, service: GuardService) -> None:
    host, kills = bed[1], kernel_kills(bed[1])
    await service.start(plan_of(bed, "hung-b1"))
    eat(host, "hung-b1", "64", "200")
    path = host.root / "tmp/nightdeck-0/guard/hung-b1.r0/state.json"
    wait(lambda: json.loads(path.read_text())["container_state"] == "running", "the guard to see its container")
    host.signal("dockerd", signal.SIGSTOP)
    try:
        inside = next(pid for pid in host.pids("eat"))
        # The host itself runs short; the guard's own container is what it may end.
        hog = subprocess.Popen(  # noqa: ASYNC220 - the loop has nothing else to do
            _joined(host, "/srv/eater/eat", "1024"), stdout=subprocess.DEVNULL
        )
        try:
            wait(lambda: processes.started(inside) is None, "the container's process to end")
        finally:
            for pid in host.pids("eat"):
                os.kill(pid, signal.SIGKILL)
            hog.wait(10)
    finally:
        host.signal("dockerd", signal.SIGCONT)
    told = marker(host, "hung-b1")
    assert told is not None and told["killed_by"] == "signal"
    assert told["tried"][0] == "engine: timed out"
    assert kernel_kills(host) >= kills


def _joined(host: Host, *argv: str) -> list[str]:
    join = f'echo $$ >/sys/fs/cgroup/memory/{host.cgroup}/cgroup.procs; exec "$@"'
    return ["sh", "-c", join, "sh", "nsenter", "-t", str(host.init), "-m", "-n", "-p", "-r", "-w", *argv]


@pytest.mark.slow
@pytest.mark.timeout(3600)
async def test_of_a_hundred_that_stop_short_of_the_floor_none_is_killed(bed: Bed, service: GuardService) -> None:
    host = bed[1]
    for n in range(ROUNDS):
        name = f"short{n}-b1"
        await service.start(plan_of(bed, name))
        available = int(host.exec("awk", "/MemAvailable/ {print $2}", "/proc/meminfo").stdout) // 1024
        goal = available - FLOOR // MIB - 100
        eat(host, name, "4096", str(goal))
        path = host.root / f"tmp/nightdeck-0/guard/{name}.r0/state.json"
        near = FLOOR + 400 * MIB  # what started the container takes memory too, and gives it back
        wait(lambda p=path, m=near: (json.loads(p.read_text())["lowest_bytes"] or m + 1) <= m, "the eater to be near")  # type: ignore[misc]
        assert state(host, name)["Status"] == "running"
        assert marker(host, name) is None
        host.docker("rm", "-f", f"nd-{name}-r0")


@pytest.mark.slow
@pytest.mark.timeout(3600)
async def test_of_a_hundred_that_eat_all_each_is_stopped_before_the_kernel_must(
    bed: Bed, service: GuardService
) -> None:
    host, kills = bed[1], kernel_kills(bed[1])
    for n in range(ROUNDS):
        name = f"all{n}-b1"
        await service.start(plan_of(bed, name))
        eat(host, name, "1024")
        assert_killed_by_the_guard(host, name, kills)
        host.docker("rm", "-f", f"nd-{name}-r0")


@pytest.mark.slow
async def test_a_guard_ends_when_the_engine_is_started_anew_without_its_container(
    bed: Bed, service: GuardService
) -> None:
    host = bed[1]
    await service.start(plan_of(bed, "anew-b1"))
    eat(host, "anew-b1", "64", "16")
    path = host.root / "tmp/nightdeck-0/guard/anew-b1.r0/state.json"
    wait(lambda: json.loads(path.read_text())["container_state"] == "running", "the guard to see its container")
    host.kill_docker()  # the container lives on under its shim
    assert guards(host) == 1
    for pid in host.pids("eat"):
        os.kill(pid, signal.SIGKILL)
    wait(lambda: guards(host) == 0, "the guard's end")
    host.start_docker()
    assert json.loads(path.read_text())["ended"] == "its container ended" and marker(host, "anew-b1") is None


async def test_starting_the_guards_costs_the_launch_nothing_to_wait_for(bed: Bed, service: GuardService) -> None:
    """One command a node, beside `docker run`: measured here as one round trip."""
    begun = time.monotonic()
    await service.start(plan_of(bed, "fast-b1"))
    first = time.monotonic() - begun
    begun = time.monotonic()
    again = await service.start(plan_of(bed, "fast-b1"))
    second = time.monotonic() - begun
    assert isinstance(again["spark1"], Guard) and again["spark1"].running
    wait(lambda: guards(bed[1]) == 1, "the second start to leave the first guard alone")
    assert second < 2.0 and first < 5.0
    eat(bed[1], "fast-b1", "64", "16")
    path = bed[1].root / "tmp/nightdeck-0/guard/fast-b1.r0/state.json"
    wait(lambda: json.loads(path.read_text())["container_state"] == "running", "the guard to see its container")
    bed[1].docker("rm", "-f", "nd-fast-b1-r0")
    wait(lambda: guards(bed[1]) == 0, "the guard's end")
