"""The seed on eight nodes, word by word."""

from __future__ import annotations

from pathlib import Path

from console.recipe.parse import parse_recipe
from tests.plan.build import CAPTURE, SPEC, plan_of, seed, sparks

SEED_FILE = Path(__file__).parent / "fixtures" / "seed-recipe.toml"
TITLE = "DeepSeek-V4.1-Flash MXFP4 (dsv41 img, 8x, DSpark k=5, Engram in DRAM)"
JIT = "/home/operator/sm121-cache/jit-121f"


def expected_container(rank: int, node: str, address: str) -> list[str]:
    return [
        *("docker", "run", "-d", "--name", f"nd-dsv41-flash-8x-b11-r{rank}", "--pull", "never"),
        *("--init", "--network", "host", "--ipc", "host", "--gpus", "all", "--device", "/dev/infiniband"),
        *("--cap-add", "IPC_LOCK", "--ulimit", "memlock=-1", "--ulimit", "nofile=1048576:1048576"),
        *("--shm-size", "32gb"),
        *("--label", "nightdeck.deployment=dep-1"),
        *("--label", "nightdeck.boot=11"),
        *("--label", "nightdeck.recipe=dsv41-flash-8x"),
        *("--label", f"nightdeck.title={TITLE}"),
        *("--label", "nightdeck.digest=" + "d" * 64),
        *("--label", f"nightdeck.rank={rank}"),
        *("--label", "nightdeck.world=8"),
        *("--label", f"nightdeck.node={node}"),
        *("--label", "nightdeck.head=dgx1"),
        *("--label", "nightdeck.port=8000"),
        *("--label", "nightdeck.served=deepseek-v4-flash"),
        *("--label", "nightdeck.ready_timeout_s=3600"),
        *("--label", "nightdeck.launched_at=1795000000.250"),
        *("--mount", "type=bind,src=/mnt/nas/hf,dst=/root/.cache/huggingface"),
        *("--mount", f"type=bind,src={JIT}/flashinfer,dst=/root/.cache/flashinfer"),
        *("--mount", f"type=bind,src={JIT}/torchinductor,dst=/root/.cache/torchinductor"),
        *("--mount", f"type=bind,src={JIT}/vllm,dst=/root/.cache/vllm"),
        *("-e", f"VLLM_HOST_IP={address}"),
        *("-e", "NCCL_SOCKET_IFNAME==enp1s0f0np0"),
        *("-e", "GLOO_SOCKET_IFNAME=enp1s0f0np0"),
        *("-e", "TP_SOCKET_IFNAME=enp1s0f0np0"),
        *("-e", "NCCL_IB_HCA==rocep1s0f0:1,roceP2p1s0f0:1"),
        *("-e", "NCCL_IB_DISABLE=0"),
        *("-e", "HF_HUB_OFFLINE=1"),
        *("-e", "VLLM_USE_BREAKABLE_CUDAGRAPH=1"),
        *("-e", "VLLM_HAS_FLASHINFER_CUBIN=1"),
        *("-e", "VLLM_USE_RUST_FRONTEND=0"),
        *("-e", "MAX_JOBS=2"),
        *("-e", "VLLM_ENGINE_READY_TIMEOUT_S=3600"),
        *("-e", "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True"),
        *("-e", "TORCH_CUDA_ARCH_LIST=12.1a"),
        *("-e", "FLASHINFER_CUDA_ARCH_LIST=12.1a"),
        *("-e", "OMP_NUM_THREADS=2"),
        "dsv41-flash:local",
    ]


def expected_engine(rank: int) -> list[str]:
    tail = ["--host", "0.0.0.0", "--port", "8000"] if rank == 0 else ["--headless"]
    return [
        "deepseek-ai/DeepSeek-V4.1-Flash",
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
        *("--tensor-parallel-size", "8"),
        *("--pipeline-parallel-size", "1"),
        *("--nnodes", "8", "--node-rank", str(rank), "--master-addr", "10.0.0.1", "--master-port", "29501"),
        *tail,
    ]


def test_rank_0_word_by_word() -> None:
    rank = plan_of(seed(), sparks()).ranks[0]
    assert list(rank.argv) == expected_container(0, "dgx1", "10.0.0.1") + expected_engine(0)
    assert list(rank.engine_argv) == expected_engine(0)
    assert rank.is_head and rank.node == "dgx1"


def test_rank_3_word_by_word() -> None:
    rank = plan_of(seed(), sparks()).ranks[3]
    assert list(rank.argv) == expected_container(3, "dgx4", "10.0.0.4") + expected_engine(3)
    assert not rank.is_head


def test_folders_are_made_for_caches_and_never_for_the_hub_cache() -> None:
    for rank in plan_of(seed(), sparks()).ranks:
        assert rank.mkdirs == (f"{JIT}/flashinfer", f"{JIT}/torchinductor", f"{JIT}/vllm")


def test_the_seed_file_itself_gives_the_same_commands() -> None:
    recipe = parse_recipe(SEED_FILE.read_text(), slug="dsv41-flash-8x", file="recipes/dsv41-flash-8x/recipe.toml")
    plan = plan_of(recipe, sparks())
    assert list(plan.ranks[0].engine_argv) == expected_engine(0)
    assert [list(r.engine_argv) for r in plan.ranks[1:]] == [expected_engine(r) for r in range(1, 8)]
    own = [w.replace("d" * 64, recipe.digest) for w in expected_container(3, "dgx4", "10.0.0.4")]
    assert list(plan.ranks[3].argv) == own + expected_engine(3)
    assert plan.unexplained == () and plan.blocks == ()
    assert plan.ready_timeout_s == 3600.0 and plan.served_name == "deepseek-v4-flash"


def test_no_flag_that_would_lose_a_dead_rank() -> None:
    for rank in plan_of(seed(), sparks()).ranks:
        assert "--rm" not in rank.argv
        assert not [w for w in rank.argv if w.startswith("--restart")]
