"""The memory guard on hosts with a memory limit: it is faster than the kernel, needs nobody, and harms no one else."""

from __future__ import annotations

import contextlib
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
from tests.services.guard_figures import Watched, eaten, fall, spread
from tests.testbed import image, needs, processes
from tests.testbed.bed import Bed, BedUnavailable
from tests.testbed.host import Host

pytestmark = [pytest.mark.bed, pytest.mark.xdist_group("bed")]
TOP = Path(__file__).resolve().parents[2]
LXCFS = Path("/var/lib/lxcfs")
MIB = 1 << 20
FLOOR = 1024 * MIB
STEP = 8  # MiB that the eater takes at once
SHORT_BY = 100 * MIB  # what an eater that is to be let live leaves above the floor
ROUNDS = int(os.environ.get("GUARD_ROUNDS", "100"))
# The product's own policy, with floors that fit hosts of 3 GB.
POLICY = GuardPolicy(loading_floor_gib=1.0, serving_floor_gib=0.25)
EATER = r"""
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>
static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + t.tv_nsec / 1e9;
}
int main(int argc, char **argv) {   /* RATE and LIMIT in MiB (per second); then it holds what it has */
    long rate = atol(argv[1]), limit = argc > 2 ? atol(argv[2]) : 1 << 20, step = 8, have = 0;
    double due = now(), early;
    for (; have + step <= limit; have += step) {
        char *p = mmap(0, step << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        memset(p, 1, step << 20);
        due += (double)step / rate;
        early = due - now();
        if (early > 0) usleep(early * 1e6);
        else if (early < -0.05) due = now() - 0.05;   /* what a busy machine withheld is not eaten at one gulp */
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
    """Processes that the kernel killed for memory in the host's control group and in those of its containers: version 1
    counts each in the victim's own."""
    top = Path("/sys/fs/cgroup/memory") / host.cgroup
    total = 0
    for file in top.rglob("memory.oom_control"):
        with contextlib.suppress(OSError):  # a container's group goes with it
            total += int(file.read_text().split("oom_kill ")[1].split()[0])
    return total


def wait(look: Callable[[], object], what: str, seconds: float = 90) -> None:
    processes.until(lambda: bool(look()), seconds, what)


def assert_killed_by_the_guard(host: Host, deployment: str, kills: int) -> dict[str, Any]:
    wait(lambda: state(host, deployment)["Status"] == "exited", f"the container's end: {last_state(host, deployment)}")
    wait(lambda: marker(host, deployment) or guards(host) == 0, "the guard's marker")
    told, ended = marker(host, deployment), state(host, deployment)
    assert told is not None, f"the kernel was faster: {ended}, {last_state(host, deployment)}"
    assert (ended["ExitCode"], ended["OOMKilled"]) == (137, False)
    assert kernel_kills(host) <= kills, "the kernel was faster"
    assert 0 < told["available_bytes"] < told["floor_bytes"] == FLOOR
    assert told["history"][-1] == [0.0, told["available_bytes"]]
    wait(lambda: guards(host) == 0, "the guard's end")
    return told


def last_state(host: Host, deployment: str) -> dict[str, Any]:
    """What the guard said of itself last; {} before it said anything."""
    path = host.root / f"tmp/nightdeck-0/guard/{deployment}.r0/state.json"
    return dict(json.loads(path.read_text())) if path.exists() else {}


async def test_what_eats_a_gibibyte_a_second_is_stopped_before_the_kernel_must(bed: Bed, service: GuardService) -> None:
    host, kills = bed[1], kernel_kills(bed[1])
    bystander = ["--entrypoint", "/eater/eat", "-v", "/srv/eater:/eater:ro", "--network", "host"]
    host.docker("run", "-d", "--pull", "never", "--name", "bystander", *bystander, image.REFERENCE, "100", "80")
    found = await service.start(plan_of(bed, "eat-b1"))
    assert isinstance(guard := found[host.name], Guard) and guard.running
    assert guard.oom_score_adj in (-1000, 0)  # 0 where not even root may ask to be passed by
    eat(host, "eat-b1", "1024")
    told = assert_killed_by_the_guard(host, "eat-b1", kills)
    # A busy engine is not waited for while memory runs out.
    assert told["killed_by"] in ("engine", "signal") and told["stage"] == "loading"
    assert json.loads(host.docker("inspect", "bystander").stdout)[0]["State"]["Status"] == "running"
    trip = await service.marker(host.name, "eat-b1", 0)
    assert trip is not None and not isinstance(trip, Absent)
    assert "TRIPPED: the memory guard on spark1 killed rank 0 " in marker_text(trip, 0, "spark1")


async def test_it_needs_no_link(bed: Bed, service: GuardService) -> None:
    host, kills = bed[1], kernel_kills(bed[1])
    await service.start(plan_of(bed, "cut-b1"))
    host.cut()
    try:
        eat(host, "cut-b1", "1024")
        assert_killed_by_the_guard(host, "cut-b1", kills)
    finally:
        host.heal()


def guarded_by_a_console_that_died(bed: Bed, file: Path, deployment: str) -> None:
    """A console of its own starts the guard, and is killed."""
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
    print((await service.start(plan_of([None, Named], {deployment!r})))["spark1"].running, flush=True)
    await asyncio.sleep(600)
asyncio.run(main())
"""
    console = subprocess.Popen([sys.executable, "-c", program], cwd=TOP, stdout=subprocess.PIPE, text=True)
    try:
        assert console.stdout is not None
        assert console.stdout.readline() == "True\n"
    finally:
        console.kill()
        console.communicate()


def test_it_outlives_the_console_that_started_it(bed: Bed, tmp_path: Path) -> None:
    host, kills = bed[1], kernel_kills(bed[1])
    guarded_by_a_console_that_died(bed, bed.cluster_toml(tmp_path / "cluster.toml"), "dead-b1")
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
    margins = []
    for n in range(ROUNDS):
        name = f"short{n}-b1"
        await service.start(plan_of(bed, name))
        available = int(host.exec("awk", "/MemAvailable/ {print $2}", "/proc/meminfo").stdout) // 1024
        goal = (available - FLOOR // MIB - SHORT_BY // MIB) // STEP * STEP
        eat(host, name, "4096", str(goal))
        wait(lambda g=goal: eaten(host) >= (g - 1) * MIB, "the eater to hold all it wants")  # type: ignore[misc]
        full = time.time()
        # A beat later the guard has read the memory many times while it was that low.
        wait(lambda d=name, t=full: last_state(host, d).get("at", 0.0) > t + 0.5, "the guard's next word")  # type: ignore[misc]
        told = last_state(host, name)
        assert (told["container_state"], state(host, name)["Status"], marker(host, name)) == (
            "running",
            "running",
            None,
        )
        margins.append(told["lowest_bytes"] - FLOOR)
        assert 0 < margins[-1] < 3 * SHORT_BY, "it was not near the floor, or was below it and let live"
        host.docker("rm", "-f", f"nd-{name}-r0")
    print(f"\n{ROUNDS} of {ROUNDS} let live, {spread(margins, MIB)} MiB above the floor at their lowest")


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("console", ["connected", "link cut", "dead"])
async def test_of_a_hundred_that_eat_all_each_is_stopped_before_the_kernel_must(
    bed: Bed, service: GuardService, tmp_path: Path, console: str
) -> None:
    host, kills = bed[1], kernel_kills(bed[1])
    file = bed.cluster_toml(tmp_path / "cluster.toml")
    left, rates, took = [], [], []
    for n in range(ROUNDS):
        name = f"all{n}-b1"
        if console == "dead":
            guarded_by_a_console_that_died(bed, file, name)
        else:
            # A line that was cut a round ago may have to be dialled anew.
            wait_s = time.monotonic() + 60
            while isinstance(found := (await service.start(plan_of(bed, name)))[host.name], Absent):
                assert time.monotonic() < wait_s, found.reason
        if console == "link cut":
            host.cut()
        with Watched(host) as watched:
            eat(host, name, "1024")
            told = assert_killed_by_the_guard(host, name, kills)
        host.heal()
        rates.append(fall(told))
        took.append(told["took_s"])
        left.append(watched.least)
        host.docker("rm", "-f", f"nd-{name}-r0")
    words = f"{ROUNDS} of {ROUNDS} stopped by the guard, none by the kernel, console {console}"
    figures = f"falling at {spread(rates, MIB)} MiB/s, killed in {spread(took, 0.001)} ms"
    print(f"\n{words}; {figures}, {spread(left, MIB)} MiB left at the lowest")


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
