"""Recipes, clusters and facts as the tests of the plan need them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from console.base.absent import Absent
from console.cluster.facts import Hca, Interface, NodeFacts
from console.cluster.model import Cluster, Node
from console.plan.model import Plan
from console.plan.render import make_plan
from console.recipe.model import Mount, Recipe

GIB = 1 << 30
GB10_TOTAL = 130_663_231_488  # MemTotal of a DGX Spark: 121.69 GiB
CAPTURE = (
    '{"cudagraph_mode":"FULL_AND_PIECEWISE","cudagraph_capture_sizes":[5,6,10,12,15,18,20,24,25,30,35,36,40,42,48]}'
)
SPEC = (
    '{"method":"dspark","num_speculative_tokens":5,"draft_sample_method":"probabilistic",'
    '"rejection_sample_method":"block","enable_adaptive_verification":false}'
)
SEED_ARGS = (
    *("--served-model-name", "deepseek-v4-flash"),
    "--trust-remote-code",
    *("--distributed-executor-backend", "mp"),
    *("--gpu-memory-utilization", "0.91"),
    *("--max-model-len", "524288"),
    *("--max-num-seqs", "8"),
    *("--max-num-batched-tokens", "8192"),
    *("--block-size", "128"),
    *("--compilation-config", CAPTURE),
    *("--speculative-config", SPEC),
    *("--tool-call-parser", "deepseek_v41"),
    "--enable-auto-tool-choice",
    *("--reasoning-parser", "deepseek_v41"),
    *("--default-chat-template-kwargs", '{"thinking": true, "reasoning_effort": "max"}'),
)
SEED_ENV = {
    "HF_HUB_OFFLINE": "1",
    "VLLM_USE_BREAKABLE_CUDAGRAPH": "1",
    "VLLM_HAS_FLASHINFER_CUBIN": "1",
    "VLLM_USE_RUST_FRONTEND": "0",
    "MAX_JOBS": "2",
    "VLLM_ENGINE_READY_TIMEOUT_S": "3600",
    "PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True",
    "TORCH_CUDA_ARCH_LIST": "12.1a",
    "FLASHINFER_CUDA_ARCH_LIST": "12.1a",
    "OMP_NUM_THREADS": "2",
}
NCCL_SMALL = {
    "NCCL_BUFFSIZE": "1048576",
    "NCCL_LL128_BUFFSIZE": "262144",
    "NCCL_PROTO": "^LL128",
    "NCCL_MAX_NCHANNELS": "8",
}
HCAS = ("rocep1s0f0:1", "roceP2p1s0f0:1")


def seed(**changes: Any) -> Recipe:
    recipe = Recipe(
        slug="dsv41-flash-8x",
        file="recipes/dsv41-flash-8x/recipe.toml",
        title="DeepSeek-V4.1-Flash MXFP4 (dsv41 img, 8x, DSpark k=5, Engram in DRAM)",
        engine="vllm",
        docker_image="dsv41-flash:local",
        model="deepseek-ai/DeepSeek-V4.1-Flash",
        required_nodes=8,
        tensor_parallel_size=8,
        docker_image_dir="dsv41-flash",
        shm_size="32gb",
        args=SEED_ARGS,
        env=SEED_ENV,
        mounts=(
            Mount("~/sm121-cache/jit-121f/flashinfer", "/root/.cache/flashinfer"),
            Mount("~/sm121-cache/jit-121f/torchinductor", "/root/.cache/torchinductor"),
            Mount("~/sm121-cache/jit-121f/vllm", "/root/.cache/vllm"),
        ),
        ready_timeout_s=3600.0,
        digest="d" * 64,
    )
    return replace(recipe, **changes)


def with_args(recipe: Recipe, **values: str | None) -> Recipe:
    """The recipe with flags set to values (added if absent), or removed for None."""
    words = list(recipe.args)
    for name, value in values.items():
        flag = "--" + name.replace("_", "-")
        if flag in words:
            at = words.index(flag)
            words[at : at + 2] = [] if value is None else [flag, value]
        elif value is not None:
            words += [flag, value]
    return replace(recipe, args=tuple(words))


def safe(**changes: Any) -> Recipe:
    """The seed as it can be trusted to serve: 0.80, NCCL's buffers set, Engram on the GPU side."""
    recipe = with_args(seed(), gpu_memory_utilization="0.80", engram_config='{"cpu_offload":false}')
    recipe = replace(recipe, slug="dsv41-flash-8x-safe", env={**SEED_ENV, **NCCL_SMALL})
    return replace(recipe, **changes)


def tiny(**changes: Any) -> Recipe:
    recipe = Recipe(
        slug="tiny-cpu",
        file="recipes/tiny-cpu/recipe.toml",
        title="a tiny model on CPUs",
        engine="vllm",
        docker_image="tiny-cpu:1.0",
        model="/models/tiny",
        required_nodes=2,
        tensor_parallel_size=2,
        args=("--served-model-name", "tiny", "--max-model-len", "512", "--enforce-eager"),
        gpus="none",
    )
    return replace(recipe, **changes)


def sparks(count: int = 8, **changes: Any) -> Cluster:
    nodes = tuple(
        Node(
            name=f"dgx{i}",
            host=f"dgx{i}",
            user="operator",
            fabric_address=f"10.0.0.{i}",
            fabric_interface="enp1s0f0np0",
            hcas=HCAS,
            hf_cache="/mnt/nas/hf",
        )
        for i in range(1, count + 1)
    )
    return replace(Cluster(name="spark8", file="cluster.toml", nodes=nodes), **changes)


def bare(count: int = 2, **node: Any) -> Cluster:
    """A cluster file that names hosts and nothing else."""
    return Cluster("bare", "cluster.toml", tuple(Node(name=f"n{i}", host=f"n{i}", **node) for i in range(1, count + 1)))


def spark_facts(name: str, index: int = 1, **changes: Any) -> NodeFacts:
    facts = NodeFacts(
        node=name,
        at=1000.0,
        user="operator",
        home="/home/operator",
        hostname=name,
        kernel="6.17.0-1032-nvidia",
        architecture="aarch64",
        boot_id=f"boot-{name}",
        uptime_s=86_400.0,
        clock_offset_s=0.02,
        mem_total_bytes=GB10_TOTAL,
        mem_available_bytes=117 * GIB,
        container_cli="docker",
        container_version="29.1.2",
        storage_driver="overlay2",
        image_ids={"dsv41-flash:local": "sha256:" + "a" * 64},
        gpu_names=("NVIDIA GB10",),
        gpu_driver="580.95.05",
        nvidia_runtime=True,
        infiniband=True,
        interfaces=(
            Interface("lo", ("127.0.0.1",), True, 65536),
            Interface("enp1s0f0np0", (f"10.0.0.{index}",), True, 9000, 200_000),
        ),
        hcas=tuple(Hca(h, "enp1s0f0np0", "ACTIVE") for h in HCAS),
        nofile_limit=1_048_576,
        memlock_unlimited=True,
        listening_ports=frozenset({22}),
        disk_free_bytes={"/": 400 * GIB},
    )
    return replace(facts, **changes)


def all_facts(cluster: Cluster, **changes: Any) -> dict[str, NodeFacts | Absent]:
    return {n.name: spark_facts(n.name, i, **changes) for i, n in enumerate(cluster.nodes, start=1)}


def plan_of(recipe: Recipe, cluster: Cluster, facts: dict[str, NodeFacts | Absent] | None = None, **rest: Any) -> Plan:
    return make_plan(
        recipe,
        cluster,
        all_facts(cluster) if facts is None else facts,
        boot_number=11,
        deployment="dep-1",
        launched_at=1_795_000_000.25,
        **rest,
    )


def codes(findings: Any) -> list[str]:
    return [f.code for f in findings]
