"""What was asked of nodes for a launch: each finding fires for its fault, and a healthy cluster is silent."""
# ruff: noqa: E501 rows of a table are kept whole

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from console.base.absent import NOT_SAMPLED, Absent
from console.base.findings import Finding
from console.cluster.facts import Hca, NodeFacts
from console.cluster.launch_facts import (
    ContainerFact,
    EngineProcess,
    GpuClock,
    GpuHolder,
    ImageFact,
    LaunchFacts,
    ModelFact,
    PathFact,
    Route,
)
from console.plan.launch_ask import asks, model_place, raw_binds
from console.plan.preflight import preflight
from console.plan.preflight_matrix import matrix
from console.recipe.model import Mount
from tests.plan.build import GIB, HCAS, all_facts, codes, plan_of, safe, sparks

REFERENCE = "dsv41-flash:local"
QUIET = {"shm-size-no-effect", "ready-timeout-note"}
# Said of all nodes alike until each of them was asked and has it.
ASKS = {"offline-hub-model"}
HUB = "/mnt/nas/hf"
CACHES = [f"~/sm121-cache/jit-121f/{n}" for n in ("flashinfer", "torchinductor", "vllm")]
WHOLE = ModelFact(
    "deepseek-ai/DeepSeek-V4.1-Flash", f"{HUB}/hub/x", "whole", "", "5f2e8c", (), (), 60, 600 * GIB, 595 * GIB
)
LAYERS = ("sha256:" + "1" * 64, "sha256:" + "2" * 64)
OLD_HEAD = EngineProcess(4242, "python3 /usr/local/bin/vllm serve deepseek-ai/DeepSeek-V4.1-Flash", "", 9 * GIB, 7200.0)
BOX = "b" * 64


def routes(index: int) -> tuple[Route, ...]:
    return tuple(Route(f"10.0.0.{i}", "enp1s0f0np0", 9000, True, True) for i in range(1, 9) if i != index)


def healthy(index: int = 1, **changes: Any) -> LaunchFacts:
    facts = LaunchFacts(
        mounts={HUB: PathFact("dir", "", False), **{c: PathFact("dir", "", True) for c in CACHES}},
        models=(WHOLE,),
        images={REFERENCE: ImageFact("sha256:" + "a" * 64, LAYERS, 24 * GIB, "", "arm64", "c0ffee")},
        containers=(ContainerFact("c" * 64, "grafana", "grafana:12", "running"),),
        engines=(),
        gpu_holders=(),
        gpu_clocks=(GpuClock(208.0, 4.5, 0.0, 0x1),),
        routes=routes(index),
        watchdogs=(),
        consoles=0,
        remove_ipc=True,
        linger=True,
        shm_total_bytes=60 * GIB,
        shm_free_bytes=60 * GIB,
        shm_leftovers={},
        swap_total_bytes=0,
        swap_free_bytes=0,
        cma_total_bytes=128 << 20,
        cma_free_bytes=100 << 20,
        page_cache_bytes=3 * GIB,
    )
    return replace(facts, **changes)


def world(node: str = "", base: dict[str, Any] | None = None, **changes: Any) -> dict[str, NodeFacts | Absent]:
    """Eight healthy nodes; one of them with changes (in `base`: of its hardware)."""
    out: dict[str, NodeFacts | Absent] = {}
    for i, (name, fact) in enumerate(all_facts(sparks()).items(), 1):
        assert isinstance(fact, NodeFacts)
        mine = name == node
        fact = replace(fact, uid=1000, hcas=tuple(Hca(h, "enp1s0f0np0", "ACTIVE", 3) for h in HCAS))
        out[name] = replace(fact, launch=healthy(i, **(changes if mine else {})), **((base or {}) if mine else {}))
    return out


def findings(facts: dict[str, NodeFacts | Absent], recipe: Any = None) -> tuple[Finding, ...]:
    recipe = recipe or safe()
    return preflight(recipe, sparks(), plan_of(recipe, sparks(), facts), facts)


def test_a_healthy_cluster_is_silent() -> None:
    assert set(codes(findings(world()))) == QUIET


def path(kind: str, why: str = "", *, writable: bool = False, at: str = HUB) -> dict[str, Any]:
    mounts = healthy().mounts
    assert not isinstance(mounts, Absent)
    return {"mounts": {**mounts, at: PathFact(kind, why, writable)}}


def model(**changes: Any) -> dict[str, Any]:
    return {"models": (replace(WHOLE, **changes),)}


@pytest.mark.parametrize(
    "changes, code, severity, part",
    [
        (path("missing"), "mount-missing", "block", "/mnt/nas/hf, mounted at"),
        (path("hung", "gave no answer in 4 s"), "mount-hung", "block", "/mnt/nas/hf gave no answer in 4 s"),
        (path("error", "Stale file handle"), "mount-unreadable", "block", "Stale file handle"),
        (path("file"), "mount-kind", "block", "is a file"),
        (path("missing", writable=True, at=CACHES[0]), "folder-made", "info", "1 folder will be made"),
        (model(state="missing", why="no snapshot in /x"), "model-missing", "warn", "not on the node"),
        (model(state="incomplete", missing=("model-00007-of-00060.safetensors",)), "model-incomplete", "block", "00007"),
        (model(state="incomplete", damaged=("a.safetensors is cut off: 5 of 9 bytes",)), "model-truncated", "block", "5 of 9"),
        (model(state="hung", why="gave no answer in 4 s"), "model-hung", "block", "no answer"),
        (model(revision="other"), "model-differs", "warn", "other of 600 GiB on dgx6"),
        ({"linger": False}, "remove-ipc", "info", "runs as root"),
        ({"shm_free_bytes": 1 * GIB}, "shm-low", "warn", "1.0 GiB of 60.0 GiB free"),
        ({"shm_free_bytes": 1 << 20}, "shm-full", "block", "/dev/shm"),
        ({"shm_leftovers": {"psm_1": 5 << 20}}, "shm-leftovers", "info", "5.0 MiB of engines that have ended: psm_1"),
        ({"shm_leftovers": {"nccl-x": 9 * GIB}}, "shm-leftovers", "warn", "9.0 GiB"),
        ({"swap_total_bytes": 16 * GIB, "swap_free_bytes": 16 * GIB}, "swap-on", "info", "16.0 GiB of swap"),
        ({"swap_total_bytes": 16 * GIB, "swap_free_bytes": 9 * GIB}, "swap-used", "warn", "7.0 GiB of 16.0 GiB"),
        ({"cma_free_bytes": 1 * GIB}, "cma-broken", "block", "more than CmaTotal"),
        ({"containers": (ContainerFact(BOX, "nd-old-b3-r5", REFERENCE, "running", True),)}, "leftover-container", "block", "nd-old-b3-r5"),
        ({"engines": (OLD_HEAD,)}, "engine-running", "block", "in no container: pid 4242"),
        ({"gpu_holders": (GpuHolder(7, "python3", "", 9 * GIB),)}, "gpu-held", "warn", "holds 9.0 GiB"),
        ({"watchdogs": ("earlyoom",)}, "watchdog", "info", "earlyoom runs"),
        ({"consoles": 1}, "watched-elsewhere", "info", "another console"),
        ({"gpu_clocks": (GpuClock(507.0, 14.0, 96.0, 0),)}, "gpu-clock-low", "warn", "507 MHz at load"),
        ({"gpu_clocks": (GpuClock(900.0, 30.0, 0.0, 0x48),)}, "gpu-throttled", "warn", "HW slowdown, HW thermal slowdown"),
        ({"routes": (Route("10.0.0.1", "enP7s7", 1500, True, True),)}, "fabric-route", "block", "dgx1 is reached through enP7s7"),
        ({"routes": (Route("10.0.0.1", "enp1s0f0np0", 9000, False, False),)}, "peer-silent", "warn", "no echo from dgx1"),
        ({"routes": (Route("10.0.0.1", "enp1s0f0np0", 9000, True, False),)}, "path-mtu", "block", "9000 bytes to dgx1"),
    ],
)  # fmt: skip
def test_one_fault_on_one_node(changes: dict[str, Any], code: str, severity: str, part: str) -> None:
    found = findings(world("dgx6", **changes))
    mine = [f for f in found if f.code == code]
    assert len(mine) == 1 and str(mine[0].severity) == severity and part in mine[0].message
    assert mine[0].node == "dgx6" and mine[0].remedy
    assert set(codes(found)) - QUIET - (ASKS if code.startswith("model-") else set()) == {code}


def test_a_mount_that_must_be_made_and_cannot() -> None:
    found = findings(world("dgx6", **path("missing", writable=False, at=CACHES[1])))
    assert {"folder-made", "mount-not-writable"} <= set(codes(found))


def test_missing_home_folders_on_all_nodes_are_one_line_each_and_no_obstacle() -> None:
    facts = world()
    for i, (name, fact) in enumerate(facts.items(), 1):
        assert isinstance(fact, NodeFacts)
        gone = {HUB: PathFact("dir"), **{c: PathFact("missing", "", True) for c in CACHES}}
        facts[name] = replace(fact, launch=healthy(i, mounts=gone))
    made = [f for f in findings(facts) if f.code == "folder-made"]
    assert len(made) == 8 and len({f.message for f in made}) == 1 and "3 folders" in made[0].message


def test_a_model_that_may_be_fetched_is_a_warning() -> None:
    recipe = safe()
    online = replace(recipe, env={k: v for k, v in recipe.env.items() if "OFFLINE" not in k})
    found = findings(world("dgx6", **model(state="missing", why="no snapshot")), online)
    assert "model-download" in codes(found) and "model-missing" not in codes(found)


@pytest.mark.parametrize("user, severity", [("", "info"), ("root", "info"), ("0:0", "info"), ("app", "warn")])
def test_remove_ipc_spares_engines_that_are_root(user: str, severity: str) -> None:
    image = {REFERENCE: ImageFact("sha256:" + "a" * 64, LAYERS, 24 * GIB, user, "arm64", "c0ffee")}
    found = [f for f in findings(world("dgx6", linger=False, images=image)) if f.code == "remove-ipc"]
    assert [str(f.severity) for f in found] == [severity]


def test_remove_ipc_says_nothing_for_root_and_with_linger() -> None:
    assert "remove-ipc" not in codes(findings(world("dgx6", {"uid": 0}, linger=False)))
    assert "remove-ipc" not in codes(findings(world("dgx6", remove_ipc=False, linger=False)))
    assert "remove-ipc" not in codes(findings(world("dgx6", remove_ipc=NOT_SAMPLED, linger=False)))


def test_an_engine_in_a_foreign_container_is_named_with_it_and_ours_is_not_foreign() -> None:
    inside = replace(OLD_HEAD, container=BOX)
    foreign = ContainerFact(BOX, "embedder", "vllm/vllm-openai:latest", "running")
    holder = GpuHolder(4242, "VLLM::EngineCore", BOX, 5 * GIB)
    found = findings(world("dgx6", engines=(inside,), containers=(foreign,), gpu_holders=(holder,)))
    text = next(f.message for f in found if f.code == "engine-running")
    assert "in container embedder (vllm/vllm-openai:latest)" in text and "gpu-held" not in codes(found)
    ours = replace(foreign, ours=True, name="nd-x-b1-r5")
    found = findings(world("dgx6", engines=(inside,), containers=(ours,), gpu_holders=(holder,)))
    assert "engine-running" not in codes(found) and "leftover-container" in codes(found)


def test_an_ended_rank_is_no_leftover() -> None:
    ended = ContainerFact(BOX, "nd-old-b3-r5", REFERENCE, "exited", True)
    assert "leftover-container" not in codes(findings(world("dgx6", containers=(ended,))))


def test_a_latched_clock_shows_beside_its_peers() -> None:
    facts = world()
    for i, (name, fact) in enumerate(facts.items(), 1):
        assert isinstance(fact, NodeFacts)
        clock = GpuClock(507.0 if name == "dgx4" else 2411.0, 14.0, 0.0, 0)
        facts[name] = replace(fact, launch=healthy(i, gpu_clocks=(clock,)))
    found = [f for f in findings(facts) if f.code == "gpu-clock-low"]
    assert [f.node for f in found] == ["dgx4"] and "2411 MHz" in found[0].message


def test_gids() -> None:
    other = {"hcas": tuple(Hca(h, "enp1s0f0np0", "ACTIVE", 1) for h in HCAS)}
    found = findings(world("dgx6", other))
    assert "gid-differs" in codes(found) and "gid-index-wrong" not in codes(found)
    fixed = safe()
    fixed = replace(fixed, env={**fixed.env, "NCCL_IB_GID_INDEX": "3"})
    wrong = [f for f in findings(world("dgx6", other), fixed) if f.code == "gid-index-wrong"]
    assert {f.node for f in wrong} == {"dgx6"} and wrong[0].observed == "1" and wrong[0].expected == "3"
    none = {"hcas": tuple(Hca(h, "x", "ACTIVE", Absent("no RoCE v2 GID with an IPv4 address")) for h in HCAS)}
    assert "gid-missing" in codes(findings(world("dgx6", none)))


def test_equal_layers_under_two_ids_are_one_image() -> None:
    other = {"image_ids": {REFERENCE: "sha256:" + "b" * 64}}
    same = {REFERENCE: ImageFact("sha256:" + "b" * 64, LAYERS, 24 * GIB, "", "arm64", "c0ffee")}
    found = codes(findings(world("dgx6", other, images=same)))
    assert "image-other-id" in found and "image-differs" not in found
    started_otherwise = {REFERENCE: replace(same[REFERENCE], settings="other")}
    assert "image-differs" in codes(findings(world("dgx6", other, images=started_otherwise)))
    other_layers = {REFERENCE: replace(same[REFERENCE], layers=LAYERS[:1])}
    assert "image-differs" in codes(findings(world("dgx6", other, images=other_layers)))


def test_facts_without_a_launch_say_nothing_here() -> None:
    assert set(codes(findings(all_facts(sparks())))) == QUIET | ASKS


def test_unknown_facts_say_nothing() -> None:
    facts = world()
    for name, fact in facts.items():
        assert isinstance(fact, NodeFacts)
        facts[name] = replace(fact, launch=LaunchFacts())
    assert set(codes(findings(facts))) == QUIET | ASKS


def test_what_is_asked_of_a_node() -> None:
    ask = asks(safe(), sparks())["dgx2"]
    assert HUB in ask["mounts"] and set(CACHES) <= set(ask["mounts"])
    assert ask["models"] == [
        {
            "name": "deepseek-ai/DeepSeek-V4.1-Flash",
            "folder": f"{HUB}/hub/models--deepseek-ai--DeepSeek-V4.1-Flash",
            "hub": True,
            "revision": "main",
        }
    ]
    assert "10.0.0.2" not in ask["peers"] and len(ask["peers"]) == 7 and ask["user"] == "operator"


def test_where_a_model_lies() -> None:
    cluster = sparks()
    inside = safe(model="/models/a/b", mounts=(Mount("/nas/m", "/models"), Mount("~/x", "/models/a")))
    place = model_place(inside, cluster, raw_binds(inside, cluster, cluster.nodes[0]))
    assert place is not None and place.folder == "~/x/b" and not place.hub
    own = safe(model="/models/a")
    place = model_place(own, cluster, raw_binds(own, cluster, cluster.nodes[0]))
    assert place is not None and place.folder == "/models/a"


def test_the_matrix_names_the_majority_and_who_differs() -> None:
    facts = world("dgx6", {"kernel": "7.0.0-1019-nvidia"}, swap_total_bytes=16 * GIB)
    facts["dgx3"] = Absent("connection refused")
    rows = {r.what: r for r in matrix(sparks(), plan_of(safe(), sparks(), facts), facts)}
    assert rows["kernel"].majority == "6.17.0-1032-nvidia" and rows["kernel"].differs == ("dgx6",)
    assert rows["kernel"].values["dgx3"] is None and rows["swap"].differs == ("dgx6",)
    assert rows[HUB].majority == "dir" and not rows["GPU driver"].differs
    assert rows["kernel"].as_json()["differs"] == ["dgx6"]
