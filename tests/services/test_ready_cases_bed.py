"""What stands in a launch's way, made real on two hosts: the preflight names it, and says nothing of the rest."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path

import pytest

from console.assemble import SystemClock
from console.base.absent import Absent
from console.base.findings import Finding
from console.cluster.model import Cluster
from console.files.clusters import load_cluster
from console.plan.launch_ask import asks
from console.plan.model import LABEL_DEPLOYMENT, LABEL_RANK, Plan
from console.plan.render import make_plan
from console.recipe.model import Mount, Recipe
from console.services.facts import gather_facts
from console.services.launch import Launch
from console.services.preflighted import with_preflight
from console.transport.base import Fleet
from console.transport.pool import make_fleet
from tests.services.conftest import NAS, Nas
from tests.testbed import image, processes
from tests.testbed.bed import MODEL, Bed
from tests.testbed.host import Host

pytestmark = [pytest.mark.bed, pytest.mark.xdist_group("bed")]
# Of a recipe whose engine is the stub: what is left to say of a host that is well.
USUAL = {
    *("local-image", "gpu-left-out", "infiniband-left-out", "no-rdma", "disk-low", "shm-low"),
    *("nofile-low", "memlock-limited"),
}


class Ground:
    def __init__(self, bed: Bed, cluster: Cluster, fleet: Fleet) -> None:
        self.bed, self.cluster, self.fleet = bed, cluster, fleet
        self.recipe = Recipe(
            slug="ready", file="recipe.toml", title="ready", engine="vllm", docker_image=image.REFERENCE, model=MODEL,
            required_nodes=2, tensor_parallel_size=2, args=("--max-model-len", "4096"), gpus="none",
        )  # fmt: skip

    async def plan(self, recipe: Recipe | None = None) -> Plan:
        recipe = recipe or self.recipe
        facts = await gather_facts(
            self.fleet, self.cluster, [recipe.docker_image], timeout=30.0, asks=asks(recipe, self.cluster)
        )
        assert not [f for f in facts.values() if isinstance(f, Absent)]
        made = make_plan(recipe, self.cluster, facts, boot_number=1, deployment="ready-b1-0a0b", launched_at=1.8e9)
        return with_preflight(made, recipe, self.cluster, facts)

    async def says(self, recipe: Recipe | None = None) -> dict[tuple[str, str | None], Finding]:
        plan = await self.plan(recipe)
        return {(f.code, f.node): f for f in plan.findings if f.code not in USUAL}


@pytest.fixture
async def ground(hosts: Bed, tmp_path: Path) -> AsyncIterator[Ground]:
    hosts.calm()

    def give(host: Host) -> None:
        if not host.docker("images", "-q", image.REFERENCE).stdout.strip():
            host.load_image(image.archive().path)

    hosts.each(give)
    cluster = load_cluster(hosts.cluster_toml(tmp_path / "cluster.toml", nodes=2))
    fleet = make_fleet(cluster, SystemClock())
    yield Ground(hosts, cluster, fleet)
    await fleet.close()
    hosts.calm()


async def test_hosts_that_are_well_are_not_warned_of(ground: Ground) -> None:
    assert await ground.says() == {}


async def test_sessions_that_take_an_engines_shared_memory_with_them(ground: Ground) -> None:
    host = ground.bed[2]
    host.exec("mkdir", "-p", "/run/systemd/users", "/etc/systemd", "/var/lib/systemd/linger")
    assert [(c, n) for c, n in await ground.says()] == [("remove-ipc", "spark2")]
    host.exec("touch", "/var/lib/systemd/linger/operator")
    assert await ground.says() == {}
    host.exec("rm", "/var/lib/systemd/linger/operator")
    host.exec("sh", "-c", "printf '[Login]\\nRemoveIPC=no\\n' >/etc/systemd/logind.conf")
    assert await ground.says() == {}
    host.exec("rm", "-r", "/run/systemd/users", "/etc/systemd/logind.conf")


@pytest.mark.slow
async def test_a_mount_whose_server_fell_silent(ground: Ground, nas: Nas | None) -> None:
    if nas is None:
        pytest.skip("a silent file server needs lxcfs and /dev/fuse")
    recipe = replace(ground.recipe, mounts=(Mount(NAS, "/nas", True),))
    assert await ground.says(recipe) == {}
    nas.fall_silent()
    try:
        found = await ground.says(recipe)
    finally:
        nas.answer()
    assert set(found) == {("mount-hung", "spark1"), ("mount-hung", "spark2")}
    assert all(f.severity == "block" and "no answer" in f.message for f in found.values())
    assert await ground.says(recipe) == {}


async def test_an_old_head_that_lives_on_one_node(ground: Ground) -> None:
    labels = ("--label", f"{LABEL_DEPLOYMENT}=old-b1-ffff", "--label", f"{LABEL_RANK}=0")
    ground.bed[2].docker("run", "-d", "--name", "nd-old-b1-r0", "--network", "host", "-e", "STUB_ALONE=1", *labels,
                         image.REFERENCE, MODEL, "--port", "8123")  # fmt: skip
    found = await ground.says()
    assert set(found) == {("leftover-container", "spark2")}
    assert "nd-old-b1-r0" in found["leftover-container", "spark2"].message
    ground.bed[2].docker("rm", "-f", "nd-old-b1-r0")
    ground.bed[1].docker("run", "-d", "--name", "someones", "--network", "host", "-e", "STUB_ALONE=1", image.REFERENCE,
                         MODEL, "--port", "8000")  # fmt: skip
    processes.until(lambda: bool(ground.bed[1].pids("vllm") or ground.bed[1].pids("VLLM::EngineCor")), 10, "the stub")
    found = await ground.says()
    assert {("engine-running", "spark1"), ("port-busy", "spark1")} == set(found)
    assert "someones" in found["engine-running", "spark1"].message


async def test_missing_folders_of_the_user_are_made_as_that_user(ground: Ground) -> None:
    recipe = replace(ground.recipe, mounts=(Mount("~/cache/jit/flashinfer", "/root/.cache/flashinfer"),))
    ground.bed[1].exec("mkdir", "-p", "/home/operator/cache/jit/flashinfer", user="operator")
    plan = await ground.plan(recipe)
    found = {(f.code, f.node): f for f in plan.findings if f.code not in USUAL}
    assert (
        set(found) == {("folder-made", "spark2")} and "~/cache/jit/flashinfer" in found["folder-made", "spark2"].message
    )
    await Launch(plan, ground.fleet, ground.cluster, SystemClock(), lambda _event: None).run()
    owner = ground.bed[2].exec("stat", "-c", "%U", "/home/operator/cache", "/home/operator/cache/jit/flashinfer")
    assert owner.stdout.split() == ["operator", "operator"]
    ground.bed[2].exec("rm", "-r", "/home/operator/cache")
    await not_writable(ground, recipe, lambda: ground.bed[2].exec("chmod", "555", "/home/operator"))
    ground.bed[2].exec("chmod", "700", "/home/operator")


async def not_writable(ground: Ground, recipe: Recipe, take_away: Callable[[], object]) -> None:
    take_away()
    ground.bed.calm()  # the launch's own containers
    found = await ground.says(recipe)
    assert ("mount-not-writable", "spark2") in found and found["mount-not-writable", "spark2"].severity == "block"
