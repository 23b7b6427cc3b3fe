"""Node choice, engines, network, mounts, and what the nodes' facts change."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from console.base.absent import NOT_SAMPLED, Absent
from console.base.errors import UsageError
from console.cluster.facts import Hca, Interface
from console.cluster.model import Cluster, Node
from console.plan import render
from console.plan.container import cdi_words, container_name
from console.plan.flags import find_value, parse_args
from console.recipe.model import GuardHints, Mount, NodeChoice
from tests.plan.build import all_facts, bare, codes, plan_of, safe, seed, spark_facts, sparks, tiny, with_args


def values_after(argv: tuple[str, ...], flag: str) -> list[str]:
    return [argv[i + 1] for i, w in enumerate(argv[:-1]) if w == flag]


# -- node choice


def test_cluster_order_and_the_first_is_the_head() -> None:
    plan = plan_of(tiny(), sparks())
    assert [r.node for r in plan.ranks] == ["dgx1", "dgx2"] and plan.head_node == "dgx1"


def test_only_head_and_prefer() -> None:
    recipe = tiny(nodes=NodeChoice(only=("dgx2", "dgx4", "dgx5"), head="dgx5", prefer=("dgx4",)))
    assert [r.node for r in plan_of(recipe, sparks()).ranks] == ["dgx5", "dgx4"]
    assert [r.node for r in plan_of(recipe, sparks(), head="dgx2").ranks] == ["dgx2", "dgx4"]
    assert [r.node for r in plan_of(recipe, sparks(), nodes=("dgx7", "dgx5")).ranks] == ["dgx5", "dgx7"]


@pytest.mark.parametrize(
    "recipe, rest, message",
    [
        (tiny(nodes=NodeChoice(only=("dgx9",))), {}, "no node 'dgx9'"),
        (tiny(nodes=NodeChoice(prefer=("x",))), {}, "no node 'x'"),
        (tiny(), {"head": "nope"}, "no node 'nope'"),
        (tiny(nodes=NodeChoice(only=("dgx1", "dgx2"))), {"head": "dgx3"}, "is not among the nodes"),
        (tiny(required_nodes=9, tensor_parallel_size=9), {}, "needs 9 nodes, 8 may be taken"),
        (tiny(), {"node_count": 0}, "at least one node"),
        (tiny(engine="tgi"), {}, "engine 'tgi' is not known"),
        (tiny(distributed_backend="ray"), {}, "ray backend over several nodes"),
        (with_args(tiny(), distributed_executor_backend="ray"), {}, "ray backend over several nodes"),
        (tiny(docker_image="--privileged"), {}, "docker_image"),
        (tiny(docker_image="a b"), {}, "docker_image"),
        (tiny(model="--config=/etc/shadow"), {}, "model"),
        (tiny(gpus="-v/:/host"), {}, "gpus"),
        (tiny(mounts=(Mount("/a,dst=/etc", "/b"),)), {}, "comma"),
        (tiny(mounts=(Mount("/a", "/b,readonly"),)), {}, "comma"),
        (tiny(mounts=(Mount("relative", "/b"),)), {}, "absolute path"),
        (tiny(mounts=(Mount("~root/x", "/b"),)), {}, "absolute path"),
        (tiny(mounts=(Mount("/a", "b"),)), {}, "absolute path in the container"),
        (tiny(model="~/models/tiny"), {}, "named in full"),
        (tiny(env={"A B": "1"}), {}, "no name for a variable"),
        (tiny(env={"A": "x\0y"}), {}, "NUL"),
    ],
)
def test_what_cannot_be_rendered_is_refused(recipe: Any, rest: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        plan_of(recipe, sparks(), **rest)


# -- engines


def test_one_node_has_none_of_the_flags_of_several() -> None:
    plan = plan_of(tiny(required_nodes=1, tensor_parallel_size=1), sparks())
    assert plan.ranks[0].engine_argv == (
        *("/models/tiny", "--served-model-name", "tiny", "--max-model-len", "512", "--enforce-eager"),
        *("--tensor-parallel-size", "1", "--pipeline-parallel-size", "1", "--distributed-executor-backend", "mp"),
        *("--host", "0.0.0.0", "--port", "8000"),
    )
    assert "VLLM_HOST_IP" not in plan.ranks[0].env and plan.differs == ()


@pytest.mark.parametrize("count", [1, 2, 3, 8])
def test_node_count_sets_world_and_tensor_parallel(count: int) -> None:
    plan = plan_of(with_args(tiny(), tensor_parallel_size="2"), sparks(), node_count=count)
    assert len(plan.ranks) == count
    for rank in plan.ranks:
        args = parse_args(rank.engine_argv)
        assert find_value(args, "--tensor-parallel-size") == str(count)
        assert rank.engine_argv.count("--tensor-parallel-size") == 1
        assert find_value(args, "--nnodes") == (str(count) if count > 1 else None)
    assert "world-size" not in codes(plan.findings) and plan.unexplained == ()


def test_node_count_keeps_the_pipeline() -> None:
    recipe = tiny(required_nodes=4, tensor_parallel_size=2, pipeline_parallel_size=2)
    args = parse_args(plan_of(recipe, sparks(), node_count=6).ranks[0].engine_argv)
    assert find_value(args, "--tensor-parallel-size") == "3"
    assert find_value(args, "--pipeline-parallel-size") == "2"
    with pytest.raises(UsageError, match="cannot be divided"):
        plan_of(recipe, sparks(), node_count=3)


def test_arguments_that_the_recipe_gives_are_not_given_twice() -> None:
    recipe = with_args(tiny(), port="9001", host="127.0.0.1", master_port="29777")
    plan = plan_of(recipe, sparks())
    assert plan.port == 9001
    for flag in ("--port", "--host", "--master-port"):
        assert [r.engine_argv.count(flag) for r in plan.ranks] == [1, 1]
    assert plan.unexplained == ()


def test_sglang() -> None:
    recipe = tiny(engine="sglang", args=("--mem-fraction-static", "0.8"), port=30000)
    plan = plan_of(recipe, sparks())
    image = plan.ranks[1].argv.index("tiny-cpu:1.0")
    assert plan.ranks[1].argv[image - 2 :] == (
        *("--entrypoint", "python3", "tiny-cpu:1.0", "-m", "sglang.launch_server"),
        *("--model-path", "/models/tiny", "--mem-fraction-static", "0.8", "--tp", "2"),
        *("--nnodes", "2", "--node-rank", "1", "--dist-init-addr", "10.0.0.1:29501"),
        *("--host", "0.0.0.0", "--port", "30000"),
    )
    assert plan.unexplained == ()
    own = plan_of(replace(recipe, entrypoint=("sglang", "serve")), sparks()).ranks[0].argv
    assert own[own.index("--entrypoint") + 1] == "sglang" and own[own.index("tiny-cpu:1.0") + 1] == "serve"


# -- network


def test_network_from_facts_alone() -> None:
    cluster = bare(2)
    facts = {n.name: spark_facts(n.name, i) for i, n in enumerate(cluster.nodes, start=1)}
    plan = plan_of(safe(required_nodes=2, tensor_parallel_size=2), cluster, dict(facts))
    assert plan.ranks[1].env["VLLM_HOST_IP"] == "10.0.0.2"
    assert plan.ranks[1].env["NCCL_SOCKET_IFNAME"] == "=enp1s0f0np0"
    assert plan.ranks[1].env["NCCL_IB_HCA"] == "=rocep1s0f0:1,roceP2p1s0f0:1"
    assert codes(plan.findings).count("fabric-assumed") == 2 and not plan.blocks


def test_no_address_anywhere_blocks() -> None:
    plan = plan_of(tiny(), bare(2), {"n1": Absent("no route to host"), "n2": Absent("no route to host")})
    assert codes(plan.blocks).count("fabric-unknown") == 2
    assert codes(plan.findings).count("facts-unknown") == 2


def test_loopback_and_duplicate_addresses_block() -> None:
    nodes = (Node("a", "a", fabric_address="127.0.0.1"), Node("b", "b", fabric_address="127.0.0.1"))
    plan = plan_of(tiny(), Cluster("c", "c.toml", nodes), {})
    assert codes(plan.blocks).count("fabric-loopback") == 2
    assert codes(plan.blocks).count("fabric-duplicate") == 1


def test_inactive_and_addressless_hcas_are_left_out() -> None:
    cluster = sparks(2)
    cluster = replace(cluster, nodes=tuple(replace(n, hcas=None) for n in cluster.nodes))
    hcas = (
        Hca("rocep1s0f0:1", "enp1s0f0np0", "4: ACTIVE"),
        Hca("rocep1s0f1:1", "enp1s0f1np1", "1: DOWN"),
        Hca("roceP2p1s0f0:1", "enP2p1s0f0np0", "ACTIVE"),
    )
    facts = {
        n.name: spark_facts(
            n.name,
            i,
            hcas=hcas,
            interfaces=(
                Interface("enp1s0f0np0", (f"10.0.0.{i}",), True, 9000),
                Interface("enP2p1s0f0np0", (), True, 9000),
            ),
        )
        for i, n in enumerate(cluster.nodes, start=1)
    }
    plan = plan_of(safe(required_nodes=2, tensor_parallel_size=2), cluster, dict(facts))
    assert {r.env["NCCL_IB_HCA"] for r in plan.ranks} == {"=rocep1s0f0:1"}


def test_rdma_on_some_nodes_blocks_and_on_none_warns() -> None:
    cluster = sparks(2)
    cluster = replace(cluster, nodes=tuple(replace(n, hcas=None) for n in cluster.nodes))
    recipe = safe(required_nodes=2, tensor_parallel_size=2)
    facts = all_facts(cluster)
    facts["dgx2"] = spark_facts("dgx2", 2, hcas=())
    found = [f for f in plan_of(recipe, cluster, facts).findings if f.code == "hcas-on-some"]
    assert [f.node for f in found] == ["dgx2"] and found[0].severity == "block"
    plan = plan_of(recipe, cluster, all_facts(cluster, hcas=()))
    assert "no-rdma" in codes(plan.findings) and not plan.blocks
    assert all("NCCL_IB_HCA" not in r.env and "NCCL_IB_DISABLE" not in r.env for r in plan.ranks)


def test_unknown_devices_are_left_to_nccl() -> None:
    cluster = sparks(2)
    cluster = replace(cluster, nodes=tuple(replace(n, hcas=None) for n in cluster.nodes))
    plan = plan_of(safe(required_nodes=2, tensor_parallel_size=2), cluster, all_facts(cluster, hcas=Absent("no sysfs")))
    assert codes(plan.findings).count("hcas-unknown") == 2 and "NCCL_IB_HCA" not in plan.ranks[0].env


def test_a_launcher_that_makes_ranks_differ_blocks_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    real = render.run_argv

    def faulty(recipe: Any, **rest: Any) -> tuple[str, ...]:
        argv = real(recipe, **rest)
        return (*argv[:-1], "--trust-remote-code", argv[-1]) if rest["name"].endswith("-r1") else argv

    monkeypatch.setattr(render, "run_argv", faulty)
    plan = plan_of(tiny(), sparks())
    assert plan.unexplained and "ranks-differ" in codes(plan.blocks)


def test_the_recipes_environment_wins_and_is_given_once() -> None:
    recipe = safe(env={"NCCL_IB_HCA": "=mlx5_0", "NCCL_SOCKET_IFNAME": "eth9"})
    plan = plan_of(recipe, sparks(env={"GLOO_SOCKET_IFNAME": "eth7", "X": "1"}))
    for rank in plan.ranks:
        given = values_after(rank.argv, "-e")
        assert len({g.partition("=")[0] for g in given}) == len(given)
        assert (
            rank.env["NCCL_IB_HCA"] == "=mlx5_0" and rank.env["GLOO_SOCKET_IFNAME"] == "eth7" and rank.env["X"] == "1"
        )
    found = {f.observed: f.message for f in plan.findings if f.code == "env-overridden"}
    assert set(found) == {"NCCL_IB_HCA", "NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME"}
    assert "cluster file" in found["GLOO_SOCKET_IFNAME"] and "recipe" in found["NCCL_IB_HCA"]
    assert plan.unexplained == ()


# -- mounts


def test_a_model_folder_is_mounted_read_only_and_never_made() -> None:
    rank = plan_of(tiny(), sparks()).ranks[0]
    assert "type=bind,src=/models/tiny,dst=/models/tiny,readonly" in rank.argv
    assert rank.mkdirs == ()
    covered = plan_of(tiny(mounts=(Mount("/srv/models", "/models", True),)), sparks()).ranks[0]
    assert values_after(covered.argv, "--mount") == ["type=bind,src=/srv/models,dst=/models,readonly"]
    beside = plan_of(tiny(mounts=(Mount("/srv/m", "/models/tin"),)), sparks()).ranks[0]
    assert len(values_after(beside.argv, "--mount")) == 2


def test_hub_cache_goes_where_hf_home_is() -> None:
    recipe = seed(env={"HF_HOME": "/data/hf"})
    assert "type=bind,src=/mnt/nas/hf,dst=/data/hf" in plan_of(recipe, sparks()).ranks[0].argv
    own = seed(mounts=(Mount("/x", "/root/.cache"),))
    assert values_after(plan_of(own, sparks()).ranks[0].argv, "--mount") == ["type=bind,src=/x,dst=/root/.cache"]


def test_default_cache_and_homes_that_differ_are_explained() -> None:
    cluster = sparks(2)
    cluster = replace(cluster, nodes=tuple(replace(n, hf_cache=None) for n in cluster.nodes))
    facts = all_facts(cluster)
    facts["dgx2"] = spark_facts("dgx2", 2, home="/home/other")
    plan = plan_of(safe(required_nodes=2, tensor_parallel_size=2), cluster, facts)
    assert "type=bind,src=/home/operator/.cache/huggingface,dst=/root/.cache/huggingface" in plan.ranks[0].argv
    assert "type=bind,src=/home/other/.cache/huggingface,dst=/root/.cache/huggingface" in plan.ranks[1].argv
    assert plan.unexplained == ()
    assert "mount /root/.cache/huggingface" in [d.what for d in plan.differs]


def test_unknown_home_blocks_and_keeps_the_tilde() -> None:
    plan = plan_of(safe(), sparks(), {})
    assert {f.node for f in plan.blocks if f.code == "home-unknown"} == {f"dgx{i}" for i in range(1, 9)}
    assert any(w.startswith("type=bind,src=~/sm121-cache") for w in plan.ranks[0].argv)
    assert plan.unexplained == ()


def test_files_and_read_only_sources_are_not_made() -> None:
    mounts = (Mount("~/patch/engram.py", "/app/engram.py"), Mount("~/kit", "/kit", True), Mount("~/v1.2", "/v"))
    assert plan_of(tiny(mounts=mounts), sparks()).ranks[0].mkdirs == ("/home/operator/v1.2",)


def test_a_hostile_home_is_not_put_into_a_mount() -> None:
    facts = all_facts(sparks(2), home="/home/x,dst=/etc")
    plan = plan_of(tiny(mounts=(Mount("~/a", "/a"),)), sparks(2), facts)
    assert "home-unknown" in codes(plan.blocks)
    assert not any("/etc" in w for w in plan.ranks[0].argv)


# -- what facts change


def test_no_infiniband_anywhere_leaves_the_device_out() -> None:
    plan = plan_of(safe(), sparks(), all_facts(sparks(), infiniband=False))
    assert all("--device" not in r.argv for r in plan.ranks)
    assert [f.severity for f in plan.findings if f.code == "infiniband-left-out"] == ["warn"]
    quiet = plan_of(tiny(), bare(2), {f"n{i}": spark_facts(f"n{i}", i, infiniband=False) for i in (1, 2)})
    assert [f.severity for f in quiet.findings if f.code == "infiniband-left-out"] == ["info"]


def test_infiniband_on_some_nodes_blocks_by_name() -> None:
    facts = all_facts(sparks())
    facts["dgx6"] = spark_facts("dgx6", 6, infiniband=False)
    plan = plan_of(safe(), sparks(), facts)
    assert [(f.node, f.severity) for f in plan.findings if f.code == "infiniband-missing"] == [("dgx6", "block")]
    assert all("/dev/infiniband" in r.argv for r in plan.ranks)


def test_gpus() -> None:
    assert "--gpus" not in plan_of(tiny(), sparks()).ranks[0].argv
    none = plan_of(safe(), sparks(), all_facts(sparks(), gpu_names=(), nvidia_runtime=False))
    assert "--gpus" not in none.ranks[0].argv and "gpu-left-out" in codes(none.findings)
    tool = Absent("nvidia-smi is not installed")
    cpus = plan_of(safe(), sparks(), all_facts(sparks(), gpu_names=tool, nvidia_runtime=False))
    assert "--gpus" not in cpus.ranks[0].argv
    broken = Absent("nvidia-smi: couldn't communicate with the NVIDIA driver")
    kept = plan_of(safe(), sparks(), all_facts(sparks(), gpu_names=broken, nvidia_runtime=False))
    assert "--gpus" in kept.ranks[0].argv
    lost = all_facts(sparks())
    lost["dgx3"] = spark_facts("dgx3", 3, nvidia_runtime=False)
    lost["dgx4"] = spark_facts("dgx4", 4, gpu_names=())
    plan = plan_of(safe(gpus="device=0"), sparks(), lost)
    assert values_after(plan.ranks[2].argv, "--gpus") == ["device=0"]
    assert {(f.code, f.node) for f in plan.blocks} == {("no-gpu-runtime", "dgx3"), ("gpu-missing", "dgx4")}


def test_podman_needs_no_nvidia_runtime() -> None:
    cluster = replace(sparks(2), nodes=tuple(replace(n, container_cli="podman") for n in sparks(2).nodes))
    recipe = safe(required_nodes=2, tensor_parallel_size=2)
    plan = plan_of(recipe, cluster, all_facts(cluster, nvidia_runtime=False))
    assert plan.ranks[0].argv[0] == "podman" and not plan.blocks and "podman-gpus" in codes(plan.findings)
    assert "--gpus" not in plan.ranks[0].argv and "nvidia.com/gpu=all" in plan.ranks[0].argv
    assert "--shm-size" not in plan.ranks[0].argv  # podman refuses a size beside the host's own /dev/shm


@pytest.mark.parametrize(
    ("gpus", "devices"),
    [
        ("all", ["nvidia.com/gpu=all"]),
        ("2", ["nvidia.com/gpu=0", "nvidia.com/gpu=1"]),
        ("device=1,GPU-6f1d", ["nvidia.com/gpu=1", "nvidia.com/gpu=GPU-6f1d"]),
    ],
)
def test_podman_takes_gpus_as_devices(gpus: str, devices: list[str]) -> None:
    """Before version 5 it takes --gpus and hands out nothing."""
    words = cdi_words(gpus)
    assert words[1::2] == devices and set(words[::2]) == {"--device"}


def test_limits_follow_the_node() -> None:
    facts = all_facts(sparks())
    facts["dgx2"] = spark_facts("dgx2", 2, nofile_limit=65_535, memlock_unlimited=False)
    plan = plan_of(safe(), sparks(), facts)
    assert values_after(plan.ranks[1].argv, "--ulimit") == ["nofile=65535:65535"]
    assert values_after(plan.ranks[0].argv, "--ulimit") == ["memlock=-1", "nofile=1048576:1048576"]
    assert {f.node for f in plan.findings if f.code in ("nofile-low", "memlock-limited")} == {"dgx2"}
    assert "limit nofile" in [d.what for d in plan.differs] and plan.unexplained == ()


def test_more_gpus_per_node_than_there_are() -> None:
    plan = plan_of(safe(required_nodes=4), sparks())
    assert codes(plan.blocks).count("gpus-too-few") == 4 and "world-size" in codes(plan.blocks)


# -- names


@given(slug=st.text(min_size=0, max_size=120), boot=st.integers(0, 10**6), rank=st.integers(0, 200))
@settings(max_examples=200, deadline=None)
def test_container_names_are_docker_names(slug: str, boot: int, rank: int) -> None:
    name = container_name(slug, boot, rank)
    assert name.isascii() and len(name) < 128
    assert all(c.isalnum() or c in "_.-" for c in name) and name.startswith("nd-")


def test_two_slugs_never_share_a_name() -> None:
    names = {container_name(s, 1, 0) for s in ("a b", "a-b", "a;b", "a/b", "a" * 90, "a" * 91, "", "é")}
    assert len(names) == 8
    assert container_name("dsv41-flash-8x", 11, 3) == "nd-dsv41-flash-8x-b11-r3"


def test_hostile_text_stays_one_word() -> None:
    recipe = tiny(slug="$(reboot) ; rm -rf /", title="a\x1b]0;x\x07\nb", env={"X": "$(id)`id`; rm -rf /"})
    plan = plan_of(recipe, sparks())
    argv = plan.ranks[0].argv
    assert argv.count("X=$(id)`id`; rm -rf /") == 1
    assert "\x1b" not in "".join(argv) and plan.unexplained == ()


def test_a_recipe_whose_answers_need_not_be_text_says_so_on_its_containers() -> None:
    assert all("nightdeck.judge=off" not in r.argv for r in plan_of(tiny(), sparks()).ranks)
    plan = plan_of(tiny(smoke_judge=False), sparks())
    assert all("nightdeck.judge=off" in values_after(r.argv, "--label") for r in plan.ranks)


def test_a_recipe_that_wants_no_guard_says_so_on_its_containers() -> None:
    assert all("nightdeck.guard=off" not in r.argv for r in plan_of(tiny(), sparks()).ranks)
    plan = plan_of(tiny(guard=GuardHints(enabled=False)), sparks())
    assert all("nightdeck.guard=off" in values_after(r.argv, "--label") for r in plan.ranks)


def test_a_plan_for_which_nobody_was_asked_blocks_for_nothing_that_only_nodes_know() -> None:
    plan = plan_of(safe(), sparks(), {n.name: NOT_SAMPLED for n in sparks().nodes})
    assert not plan.blocks and {"home-unknown", "facts-unknown"} <= set(codes(plan.findings))
    found = plan_of(tiny(), bare(2, fabric_address="10.0.0.1"), {f"n{i}": NOT_SAMPLED for i in (1, 2)}).findings
    assert {str(f.severity) for f in found if f.code == "interface-unknown"} == {"info"}
