"""Every code of docs/preflight.md: a case in which it fires, and a healthy cluster on which it is silent."""
# ruff: noqa: E501 rows of a table are kept whole

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest

from console.base.absent import Absent
from console.base.findings import Finding
from console.cluster.facts import Hca, NodeFacts
from console.cluster.launch_facts import ContainerFact, GpuClock, GpuHolder, ImageFact, LaunchFacts, Route
from console.cluster.model import Cluster, Node
from console.plan import render
from console.plan.codes import CODES
from console.plan.container import run_argv
from console.plan.help_flags import compared
from console.plan.lint import lint_recipe
from console.plan.preflight import preflight
from console.plan.preflight_load import Loaded, load_findings
from console.recipe.model import LaunchOptions, Recipe
from console.recipe.parse import parse_recipe
from console.services.cluster_init import facts_findings
from tests.plan.build import (
    GIB,
    HCAS,
    all_facts,
    bare,
    codes,
    plan_of,
    safe,
    seed,
    spark_facts,
    sparks,
    tiny,
    with_args,
)
from tests.plan.test_preflight import link
from tests.plan.test_preflight_launch import BOX, CACHES, LAYERS, OLD_HEAD, REFERENCE, model, path, world

Facts = dict[str, NodeFacts | Absent]
# As `safe`, with nothing in it that even a hint could be made of.
CLEAN = replace(
    safe(docker_image="dsv41-flash:r38", shm_size=None),
    model="deepseek-ai/DeepSeek-V4.1-Flash",
    env={k: v for k, v in safe().env.items() if k not in ("VLLM_ENGINE_READY_TIMEOUT_S", "HF_HUB_OFFLINE")},
)


def said(
    recipe: Recipe | None = None, facts: Facts | None = None, cluster: Cluster | None = None
) -> tuple[Finding, ...]:
    recipe, cluster = recipe or safe(), cluster or sparks()
    facts = world() if facts is None else facts
    return preflight(recipe, cluster, plan_of(recipe, cluster, facts), facts)


def lint(nodes: int = 2, **changes: Any) -> tuple[Finding, ...]:
    cluster = sparks(nodes)
    recipe = tiny(**{"required_nodes": nodes, **changes})
    return plan_of(recipe, cluster, all_facts(cluster)).findings


def args(*words: str) -> tuple[Finding, ...]:
    return lint(args=words)


def one(base: Mapping[str, Any] | None = None, **changes: Any) -> tuple[Finding, ...]:
    return said(facts=world("dgx6", dict(base or {}), **changes))


def rdma(**changes: Any) -> tuple[Finding, ...]:
    """Devices as the nodes report them, none in the cluster file."""
    cluster = replace(sparks(), nodes=tuple(replace(n, hcas=None) for n in sparks().nodes))
    facts = all_facts(cluster)
    facts["dgx6"] = spark_facts("dgx6", 6, **changes)
    return said(facts=facts, cluster=cluster)


def everywhere(**changes: Any) -> tuple[Finding, ...]:
    cluster = replace(sparks(), nodes=tuple(replace(n, hcas=None) for n in sparks().nodes))
    return said(facts=all_facts(cluster, **changes), cluster=cluster)


def addresses(*given: str) -> tuple[Finding, ...]:
    nodes = tuple(Node(f"n{i}", f"n{i}", fabric_address=a or None) for i, a in enumerate(given))
    return plan_of(tiny(), Cluster("c", "c.toml", nodes), {}).findings


def podman() -> tuple[Finding, ...]:
    cluster = replace(sparks(2), nodes=tuple(replace(n, container_cli="podman") for n in sparks(2).nodes))
    facts = all_facts(cluster, nvidia_runtime=False)
    return plan_of(safe(required_nodes=2, tensor_parallel_size=2), cluster, facts).findings


def no_interface() -> tuple[Finding, ...]:
    return plan_of(tiny(), bare(2, fabric_address="10.0.0.1"), {}).findings


def faulty_launcher(monkeypatch: pytest.MonkeyPatch) -> tuple[Finding, ...]:
    real = run_argv

    def faulty(recipe: Any, **rest: Any) -> tuple[str, ...]:
        argv = real(recipe, **rest)
        return (*argv[:-1], "--trust-remote-code", argv[-1]) if rest["name"].endswith("-r1") else argv

    monkeypatch.setattr(render, "run_argv", faulty)
    return plan_of(tiny(), sparks()).findings


def memory(available: float, recipe: Recipe | None = None) -> tuple[Finding, ...]:
    return said(recipe, facts=all_facts(sparks(), mem_available_bytes=round(available * GIB)))


def no_room() -> tuple[Finding, ...]:
    facts = world("dgx6", {"image_ids": {}, "disk_free_bytes": {"/var/lib/docker": 30 * GIB}})
    return said(facts=facts)


def gid(index: Any, *, env: Mapping[str, str] | None = None) -> tuple[Finding, ...]:
    recipe = replace(safe(), env={**safe().env, **(env or {})})
    hcas = tuple(Hca(h, "enp1s0f0np0", "ACTIVE", index) for h in HCAS)
    return said(recipe, facts=world("dgx6", {"hcas": hcas}))


def helped(flags: frozenset[str] | Absent) -> tuple[Finding, ...]:
    return compared(plan_of(tiny(args=("--seed", "1")), sparks(2)), flags, "dgx1").findings


def checked(cluster: Cluster, facts: Facts) -> tuple[Finding, ...]:
    """`cluster check`, of nodes that answered."""
    return tuple(facts_findings(cluster, {n: f for n, f in facts.items() if isinstance(f, NodeFacts)}))


SAME = {REFERENCE: ImageFact("sha256:" + "b" * 64, LAYERS, 24 * GIB, "", "arm64", "c0ffee")}
OTHER = {"image_ids": {REFERENCE: "sha256:" + "b" * 64}}
DENIED = Absent("permission denied while trying to connect to the docker API")
DOWN = (Hca(HCAS[0], "x", "ACTIVE"), Hca(HCAS[1], "x", "1: DOWN"))
NEVER = LaunchOptions(sync_image="never")
IB = {"NCCL_IB_GID_INDEX": "3"}
FULL = with_args(safe(), gpu_memory_utilization="0.95")

TEXT = 'engine = "vllm"\nname = "x"\ndocker_image = "i:1"\nmodel = "m"\nrequired_nodes = 1\n'
# Codes whose severity goes by the case.
SOFTER = {"model-missing", "remove-ipc", "gpu-missing", "infiniband-left-out", "shm-leftovers"}


def read(more: str) -> tuple[Finding, ...]:
    return parse_recipe(TEXT + more + "\n", slug="x", file="f").findings


FIRES: dict[str, Callable[[], tuple[Finding, ...]]] = {
    # -- the recipe
    "doubled-argument": lambda: args("--seed", "1", "--seed", "1"),
    "contradictory-argument": lambda: args("--seed", "1", "--seed", "2"),
    "key-argument-conflict": lambda: args("--tensor-parallel-size", "4"),
    "launcher-argument": lambda: args("--node-rank", "1"),
    "argument-without-value": lambda: args("--max-model-len"),
    "number-expected": lambda: args("--max-num-seqs", "eight"),
    "stray-word": lambda: args("serve", "--seed", "1"),
    "unicode-dash": lambda: args("\u2014seed", "8"),
    "json-argument": lambda: args("--compilation-config", "{mode: 3}"),
    "world-size": lambda: lint(3, tensor_parallel_size=2),
    "utilisation-range": lambda: args("--gpu-memory-utilization", "80"),
    "shm-size-no-effect": lambda: lint(shm_size="32gb"),
    "capture-sizes-short": lambda: args("--max-num-seqs", "16", "--compilation-config", '{"cudagraph_capture_sizes":[1,8]}'),
    "capture-sizes-uneven": lambda: said(with_args(seed(), compilation_config='{"cudagraph_capture_sizes":[5,8,48]}')),
    "batched-tokens-short": lambda: args("--max-num-seqs", "64", "--max-num-batched-tokens", "32"),
    "nccl-buffers-default": lambda: said(seed()),
    "engram-pinned": lambda: said(seed()),
    "env-name": lambda: lint(env={"NCCL_SOKET_IFNAME": "x"}),
    "host-ip-fixed": lambda: lint(env={"VLLM_HOST_IP": "10.0.0.1"}),
    "secret-in-recipe": lambda: lint(env={"HF_TOKEN": "hf_abcdefghijklmnopqrstuvwx"}),
    "ready-timeout-note": lambda: lint(env={"VLLM_ENGINE_READY_TIMEOUT_S": "3600"}),
    "local-image": lambda: lint(docker_image="x:local"),
    "image-not-pinned": lambda: lint(docker_image="x:latest"),
    "offline-hub-model": lambda: lint(model="org/model", env={"HF_HUB_OFFLINE": "1"}),
    "jit-unbounded": lambda: lint(env={"TORCH_CUDA_ARCH_LIST": "12.1a"}),
    "ray-not-supported": lambda: lint_recipe(tiny(distributed_backend="ray"), 2),
    "recipe-override": lambda: lint(launch=LaunchOptions(override=("disk-low",))),
    "override-unknown": lambda: lint(launch=LaunchOptions(override=("disk-lo",))),
    "command-in-args": lambda: args("vllm", "serve", "org/model", "--seed", "1"),
    "unicode-quote": lambda: args("--served-model-name", "\u201cm\u201d"),
    "unknown-key": lambda: read("colour = 3"),
    "args-empty": lambda: read('args = [""]'),
    "args-json": lambda: read("args = ['--hf-overrides {\"a\": 1}']"),
    "args-literal": lambda: read('args = ["--port-of $HOME"]'),
    "args-per-rank-flag": lambda: read('args = ["--node-rank 1"]'),
    "recipe-path-line": lambda: parse_recipe("recipes/x/recipe.toml\n" + TEXT, slug="x", file="f").findings,
    # -- the plan
    "facts-unknown": lambda: addresses("10.0.0.1", "10.0.0.2"),
    "fabric-unknown": lambda: addresses("", ""),
    "fabric-assumed": lambda: plan_of(safe(required_nodes=2, tensor_parallel_size=2), bare(2), {f"n{i}": spark_facts(f"n{i}", i) for i in (1, 2)}).findings,
    "fabric-loopback": lambda: addresses("127.0.0.1", "10.0.0.2"),
    "fabric-duplicate": lambda: addresses("10.0.0.1", "10.0.0.1"),
    "interface-unknown": no_interface,
    "hcas-unknown": lambda: everywhere(hcas=Absent("no sysfs")),
    "hcas-on-some": lambda: rdma(hcas=()),
    "no-rdma": lambda: everywhere(hcas=()),
    "infiniband-missing": lambda: one({"infiniband": False}),
    "infiniband-left-out": lambda: everywhere(infiniband=False),
    "gpu-left-out": lambda: everywhere(gpu_names=(), nvidia_runtime=False),
    "no-gpu-runtime": lambda: one({"nvidia_runtime": False}),
    "gpu-missing": lambda: one({"gpu_names": ()}),
    "gpu-not-seen": lambda: checked(sparks(2), all_facts(sparks(2), gpu_names=Absent("nvidia-smi is not installed"))),
    "gpus-too-few": lambda: plan_of(safe(required_nodes=4), sparks()).findings,
    "podman-gpus": podman,
    "nofile-low": lambda: one({"nofile_limit": 1024}),
    "memlock-limited": lambda: one({"memlock_unlimited": False}),
    "home-unknown": lambda: plan_of(safe(), sparks(), {}).findings,
    "env-overridden": lambda: said(replace(safe(), env={**safe().env, "NCCL_IB_HCA": "=mlx5_0"})),
    # -- memory
    "memory-gate": lambda: memory(60),
    "memory-reserve": lambda: memory(106),
    "memory-exhausted": lambda: memory(117, FULL),
    "kv-below-context": lambda: memory(117, with_args(safe(), max_model_len="90000000")),
    "kv-none": lambda: memory(117, with_args(safe(), gpu_memory_utilization="0.50")),
    "memory-unknown": lambda: one({"mem_available_bytes": Absent("no /proc/meminfo")}),
    # -- the nodes
    "unreachable": lambda: said(facts={**world(), "dgx6": Absent("connection timed out")}),
    "shell-refuses": lambda: said(
        facts={**world(), "dgx6": Absent("shell: the account's login shell refuses commands: it ended with 1")}
    ),
    "python-missing": lambda: said(facts={**world(), "dgx6": Absent("python3 is not installed on the node")}),
    "docker-permission": lambda: one({"container_version": DENIED}),
    "container-engine-missing": lambda: one({"container_cli": Absent("docker: command not found")}),
    "image-missing": lambda: said(safe(launch=NEVER), facts=world("dgx6", {"image_ids": {}})),
    "image-copied": lambda: one({"image_ids": {}}),
    "image-no-room": no_room,
    "image-differs": lambda: one(OTHER, images={REFERENCE: replace(SAME[REFERENCE], layers=LAYERS[:1])}),
    "image-other-id": lambda: one(OTHER, images=SAME),
    "architecture-differs": lambda: one({"architecture": "x86_64"}),
    "port-busy": lambda: said(facts=world("dgx1", {"listening_ports": frozenset({22, 8000})})),
    "disk-low": lambda: one({"disk_free_bytes": {"/": 6 * GIB}}),
    "disk-full": lambda: one({"disk_free_bytes": {"/": GIB // 2}}),
    "driver-differs": lambda: one({"gpu_driver": "580.173.02"}),
    "kernel-differs": lambda: one({"kernel": "7.0.0-1019-nvidia"}),
    "container-version-differs": lambda: one({"container_version": "20.10.24"}),
    "interface-missing": lambda: one({"interfaces": link(name="eth0")}),
    "interface-address": lambda: one({"interfaces": link(address="10.9.9.9")}),
    "link-down": lambda: one({"interfaces": link(up=False)}),
    "mtu-differs": lambda: one({"interfaces": link(mtu=1500)}),
    "speed-differs": lambda: one({"interfaces": link(speed=10_000)}),
    "hca-missing": lambda: one({"hcas": DOWN[:1]}),
    "hca-inactive": lambda: one({"hcas": DOWN}),
    "clock-offset": lambda: one({"clock_offset_s": -75.0}),
    "same-machine": lambda: one({"boot_id": "boot-dgx1", "hostname": "dgx1"}),
    "recently-booted": lambda: one({"uptime_s": 120.0}),
    "gpu-differs": lambda: one({"gpu_names": ("NVIDIA T4",)}),
    "mount-missing": lambda: one(**path("missing")),
    "mount-hung": lambda: one(**path("hung", "gave no answer in 4 s")),
    "mount-unreadable": lambda: one(**path("error", "Stale file handle")),
    "mount-kind": lambda: one(**path("file")),
    "mount-not-writable": lambda: one(**path("missing", at=CACHES[1])),
    "folder-made": lambda: one(**path("missing", writable=True, at=CACHES[0])),
    "model-missing": lambda: one(**model(state="missing", why="no snapshot")),
    "model-download": lambda: said(CLEAN, facts=world("dgx6", **model(state="missing", why="no snapshot"))),
    "model-incomplete": lambda: one(**model(state="incomplete", missing=("model-00007.safetensors",))),
    "model-truncated": lambda: one(**model(state="incomplete", damaged=("a.safetensors is cut off",))),
    "model-hung": lambda: one(**model(state="hung", why="gave no answer in 4 s")),
    "model-differs": lambda: one(**model(revision="other")),
    "remove-ipc": lambda: one(linger=False),
    "shm-full": lambda: one(shm_free_bytes=1 << 20),
    "shm-low": lambda: one(shm_free_bytes=1 * GIB),
    "shm-leftovers": lambda: one(shm_leftovers={"psm_1": 5 << 20}),
    "leftover-container": lambda: one(containers=(ContainerFact(BOX, "nd-old-b3-r5", REFERENCE, "running", True),)),
    "engine-running": lambda: one(engines=(OLD_HEAD,)),
    "gpu-held": lambda: one(gpu_holders=(GpuHolder(7, "python3", "", 9 * GIB),)),
    "watchdog": lambda: one(watchdogs=("earlyoom",)),
    "watched-elsewhere": lambda: one(consoles=1),
    "swap-on": lambda: one(swap_total_bytes=16 * GIB, swap_free_bytes=16 * GIB),
    "swap-used": lambda: one(swap_total_bytes=16 * GIB, swap_free_bytes=9 * GIB),
    "cma-broken": lambda: one(cma_free_bytes=1 * GIB),
    "gid-missing": lambda: gid(Absent("no RoCE v2 GID with an IPv4 address")),
    "gid-index-wrong": lambda: gid(1, env=IB),
    "gid-differs": lambda: gid(1),
    "fabric-route": lambda: one(routes=(Route("10.0.0.1", "enP7s7", 1500, True, True),)),
    "peer-silent": lambda: one(routes=(Route("10.0.0.1", "enp1s0f0np0", 9000, False, False),)),
    "path-mtu": lambda: one(routes=(Route("10.0.0.1", "enp1s0f0np0", 9000, True, False),)),
    "gpu-throttled": lambda: one(gpu_clocks=(GpuClock(900.0, 30.0, 0.0, 0x48),)),
    "gpu-clock-low": lambda: one(gpu_clocks=(GpuClock(507.0, 14.0, 96.0, 0),)),
    "gpu-slow": lambda: tuple(load_findings({"a": Loaded(21.0, 2400.0, 41.0, "NVIDIA GB10")})),
    "gpu-not-loaded": lambda: tuple(load_findings({"a": Absent("no module named torch")})),
    "flag-unknown": lambda: helped(frozenset({f"--flag-{i}" for i in range(20)})),
    "help-unreadable": lambda: helped(Absent("no such file: vllm")),
}  # fmt: skip


def test_every_code_has_a_case_here() -> None:
    """A code without one is a check that nobody has seen fire."""
    assert set(FIRES) | {"ranks-differ"} == set(CODES)


@pytest.mark.parametrize("code", sorted(FIRES))
def test_it_fires(code: str) -> None:
    found = [f for f in FIRES[code]() if f.code == code]
    assert found and all(f.message and (f.remedy or code == "unknown-key") for f in found)
    assert all(f.severity == CODES[code].severity for f in found) or code in SOFTER


def test_ranks_that_a_launcher_makes_differ(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "ranks-differ" in codes(faulty_launcher(monkeypatch))


def test_a_healthy_cluster_and_a_clean_recipe_hear_nothing_at_all() -> None:
    facts = world()
    for name, fact in facts.items():
        assert isinstance(fact, NodeFacts) and isinstance(fact.launch, LaunchFacts)
        launch = replace(fact.launch, images={CLEAN.docker_image: replace(SAME[REFERENCE], id="sha256:1")})
        facts[name] = replace(fact, launch=launch, image_ids={CLEAN.docker_image: "sha256:1"})
    assert codes(said(CLEAN, facts)) == []
    assert codes(checked(sparks(), facts)) == []


def test_gpus_that_do_well_under_load_say_nothing() -> None:
    well = {f"n{i}": Loaded(80.0 + i, 2400.0, 85.0, "NVIDIA GB10") for i in range(8)}
    assert codes(load_findings(well)) == []
    latched = {**well, "n3": Loaded(19.0, 507.0, 14.0, "NVIDIA GB10"), "n4": Loaded(50.0, 2400.0, 80.0, "NVIDIA H200")}
    assert [(f.code, f.node) for f in load_findings(latched)] == [("gpu-clock-low", "n3"), ("gpu-slow", "n4")]
    unknown = {"n1": Loaded(80.0, Absent("[N/A]"), Absent("[N/A]"), "")}
    assert codes(load_findings(unknown)) == []


def test_the_help_that_knows_all_flags_says_nothing() -> None:
    plan = plan_of(tiny(args=("--seed", "1")), sparks(2))
    known = frozenset({word for word in plan.ranks[0].engine_argv if word.startswith("--")})
    assert not {"flag-unknown", "help-unreadable"} & set(codes(compared(plan, known, "dgx1").findings))
