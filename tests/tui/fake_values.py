"""Values of a night as the console would see them: nodes, boots, recipes, lines. Deterministic, no clock."""

from __future__ import annotations

import math
from dataclasses import replace

from console.base.absent import Absent
from console.base.findings import Finding, Severity
from console.boot.events import Cause
from console.boot.state import BootState, Phase, RankState, Step
from console.cluster.model import Cluster, Node
from console.enginelog.stages_model import Cell, CellState, Stage
from console.plan.model import Difference, Plan, RankPlan
from console.recipe.model import Recipe
from console.services.hub import BootSummary, LogLine, NodeView, RecipeProblem
from console.telemetry.sample import Cpu, FileSystem, Gpu, MemKind, Memory, Pressure, RdmaRate, Sample

T0 = 1_790_128_261.0  # a Wednesday night in September 2026, UTC
GIB = 1024**3
TOTAL = 127_600_812 * 1024  # MemTotal of a GB10: 121.69 GiB


def node(i: int) -> Node:
    return Node(f"dgx{i}", f"dgx{i}", fabric_address=f"10.0.0.{i}", fabric_interface="enp1s0f0np0")


def cluster(count: int = 8) -> Cluster:
    return Cluster(
        "spark8" if count == 8 else f"farm{count}", "cluster.toml", tuple(node(i) for i in range(1, count + 1))
    )


def sample(i: int, *, used: float = 0.8, gpu: float | None = 96.0, fabric: float = 1.15e9, load: float = 3.1) -> Sample:
    """A GB10's sample: unified memory, RDMA that counts, a root disk."""
    wob = math.sin(i * 1.7)
    available = int(TOTAL * (1 - used) + wob * 0.9 * GIB)
    return Sample(
        node=f"dgx{i}",
        seq=100 + i,
        received_at=1000.0,
        node_time=5000.0,
        wall=T0,
        heard_at=T0,
        memory=Memory(
            total_bytes=TOTAL,
            available_bytes=available,
            free_bytes=available // 2,
            shmem_bytes=int(0.43 * GIB),
            swap_total_bytes=16 * GIB,
            swap_free_bytes=16 * GIB,
        ),
        psi_memory=Pressure(full10=0.2),
        psi_io=Pressure(full10=3.4),
        cpu=Cpu(percent=12.0, load1=load),
        gpus=(
            Gpu(
                0,
                "NVIDIA GB10",
                util_percent=Absent("nvidia-smi says [N/A]") if gpu is None else gpu,
                temp_c=61.0 + (i * 3) % 7,
                power_w=40.0 + i % 3,
                clock_mhz=2405.0 - i,
                mem_kind=MemKind.UNIFIED,
            ),
        ),
        rdma=(RdmaRate("rocep1s0f0:1", rx_bytes_s=fabric + i * 1e7, tx_bytes_s=fabric, state="ACTIVE", errors={}),),
        filesystems=(FileSystem("/", 3_700 * GIB, (380 + i * 7) * GIB),),
    )


def views(count: int = 8, *, used: float = 0.8, idle: bool = False) -> tuple[NodeView, ...]:
    out = []
    for i in range(1, count + 1):
        s = sample(i, used=0.05, gpu=0.0, fabric=0.0, load=0.2) if idle else sample(i, used=used)
        if not idle and i == 6:
            s = sample(6, used=used, fabric=0.31e9, load=9.8)
        out.append(NodeView(node(i), "fresh", 1.0, s, rank=None if idle else i - 1))
    return tuple(out)


def cells(upto: Stage, progress: float | None, *, at: float, first_line: int = 3) -> tuple[Cell, ...]:
    """Done before `upto`, active in it; each stage 9 s long."""
    details = {Stage.RENDEZVOUS: "8/8", Stage.LOADED: "73.2 GiB", Stage.KV_CACHE: "14.96 GiB", Stage.IMAGE: ""}
    out = []
    for stage in Stage:
        begun = at + int(stage) * 9.0
        if stage < upto:
            done = Cell(stage, CellState.DONE, begun, begun + 9.0, None, details.get(stage, ""), stage == Stage.PROFILE)
            out.append(replace(done, line=first_line + int(stage) * 10))
        elif stage == upto:
            out.append(Cell(stage, CellState.ACTIVE, begun, None, progress, "", line=first_line + int(stage) * 10))
        else:
            out.append(Cell(stage))
    return tuple(out)


def booting(now: float, *, ranks: int = 8, number: int = 11) -> BootState:
    """Boot 11 loads weights; rank 5 lags, rank 7 is silent."""
    launched = now - 761.0
    rows = []
    for r in range(ranks):
        progress = 0.38 if r == 5 else 0.63 + (r % 3) * 0.02
        rows.append(
            RankState(
                rank=r,
                node=f"dgx{r + 1}",
                container=f"nightdeck-dsv41-flash-8x-b{number}-r{r}",
                status="running",
                started_at=launched + 20,
                cells=cells(Stage.WEIGHTS, progress, at=launched + 10),
                stage=Stage.WEIGHTS,
                stage_since=now - 310.0,
                progress=progress,
                lines=1200 + r,
                last_line_at=now - (130.0 if r == 7 else 2.0),
            )
        )
    return BootState(
        deployment=f"dsv41-flash-8x-b{number}-7f3a",
        number=number,
        recipe="dsv41-flash-8x",
        title="DeepSeek-V4.1-Flash MXFP4 (8x, Engram in DRAM)",
        digest="ab12",
        head_node="dgx1",
        phase=Phase.BOOTING,
        launched_at=launched,
        deadline_s=3600.0,
        port=8000,
        served_name="deepseek-v4-flash",
        ranks=tuple(rows),
        changed=("--gpu-memory-utilization 0.91 → 0.80",),
        eta_at=now + 1440.0,
        eta_low_at=now + 1320.0,
        eta_high_at=now + 1560.0,
    )


def ready(now: float) -> BootState:
    base = booting(now)
    rows = tuple(
        replace(
            r,
            cells=cells(Stage.SERVING, None, at=now - 4000.0),
            stage=Stage.SERVING,
            progress=None,
            last_line_at=now - 5,
        )
        for r in base.ranks
    )
    return replace(
        base,
        phase=Phase.READY,
        launched_at=now - 4100.0,
        ready_at=now - 3200.0,
        ranks=rows,
        api="healthy",
        smoke_ok=True,
        smoke_text="The capital of France is Paris.",
        first_token_s=0.41,
        tokens_per_s=95.9,
        stats={"running": 2.0, "waiting": 0.0, "kv_usage": 0.12, "acceptance_length": 3.57},
        stats_at=now - 2,
        eta_at=None,
    )


def failed(now: float) -> BootState:
    base = booting(now)
    rows = [
        replace(r, status="exited" if r.rank == 5 else "running", exit_code=1 if r.rank == 5 else None)
        for r in base.ranks
    ]
    cause = Cause(
        cls="memory-gate",
        sentence="Free memory on dgx6 (98.21 of 121.69 GiB) is less than the 110.74 GiB that 0.91 asks for.",
        action="Lower --gpu-memory-utilization to 0.80, or set NCCL_BUFFSIZE and its kin: they freed 11 GiB a node.",
        rank=5,
        node="dgx6",
        stage="nccl",
        file="rank5.log",
        line=1204,
        evidence=(
            "ValueError: Free memory on device cuda:0 (98.21/121.69 GiB) on startup is less than desired GPU memory "
            "utilization (0.91, 110.74 GiB). Decrease GPU memory utilization or reduce GPU memory used by other "
            "processes.",
        ),
        victims=(0, 1, 2, 3, 4, 6, 7),
        at=now - 42.0,
    )
    return replace(
        base, phase=Phase.FAILED, ranks=tuple(rows), cause=cause, ended_at=now - 40.0, failed_rank=5,
        failed_node="dgx6", failed_why="rank 5 exited 1", eta_at=None,
    )  # fmt: skip


def starting(now: float) -> BootState:
    base = booting(now)
    rows = tuple(RankState(r.rank, r.node, r.container) for r in base.ranks)
    nodes = [r.node for r in rows]
    steps = (
        Step("connect", now - 30, dict.fromkeys(nodes, "done"), {}),
        Step("preflight", now - 28, dict.fromkeys(nodes, "done"), {}),
        Step(
            "image",
            now - 20,
            {n: "running" if n == "dgx6" else "done" for n in nodes},
            {"dgx6": "copying 12.4 of 34.1 GB"},
        ),
    )
    return replace(
        base,
        phase=Phase.STARTING,
        ranks=rows,
        steps=steps,
        launched_at=now - 30,
        eta_at=None,
        eta_why="no boot of this recipe yet",
    )


def stopped(now: float) -> BootState:
    results = {f"dgx{i}": ("stopped", "") for i in range(1, 9)}
    results["dgx6"] = ("still_running", "container did not end in 30 s")
    results["dgx8"] = ("unknown", "no answer in 10 s")
    return replace(
        booting(now), phase=Phase.STOPPING, stop_results=results, stop_result="partly", stop_at=now - 40.0, stop_by="me"
    )


def recipe(slug: str, title: str = "", *, nodes: int = 8) -> Recipe:
    return Recipe(
        slug=slug,
        file=f"recipes/{slug}/recipe.toml",
        title=title or slug,
        engine="vllm",
        docker_image="dsv41-flash:local",
        model="deepseek-ai/DeepSeek-V4.1-Flash",
        required_nodes=nodes,
        tensor_parallel_size=nodes,
        args=("--gpu-memory-utilization", "0.80"),
        digest="d-" + slug,
    )


RECIPES = (
    recipe("dsv41-flash-8x", "DeepSeek-V4.1-Flash MXFP4 (dsv41 img, 8x, DSpark k=5, Engram in DRAM)"),
    recipe("dsv41-flash-4x", "DeepSeek-V4.1-Flash, four nodes, Engram on disk", nodes=4),
    recipe("glm-5-8x", "GLM-5 FP8 over eight"),
)
PROBLEM = RecipeProblem(
    "recipes/qwen-next/recipe.toml", "unknown key, did you mean `docker_image`?", 7, 1, "dokcer_image"
)


def plan(slug: str, *, blocked: bool = False, nodes: int = 8) -> Plan:
    ranks = tuple(
        RankPlan(
            r,
            f"dgx{r + 1}",
            r == 0,
            f"nightdeck-{slug}-b12-r{r}",
            (
                "docker",
                "run",
                "-d",
                "--network",
                "host",
                "--ipc",
                "host",
                "-e",
                "HF_TOKEN=hf_abcdefghijklmnopqrst",
                "dsv41-flash:local",
            ),
            ("--model", "x", "--node-rank", str(r)),
            {"HF_HUB_OFFLINE": "1", "HF_TOKEN": "hf_abcdefghijklmnopqrst", "VLLM_HOST_IP": f"10.0.0.{r + 1}"},
        )
        for r in range(nodes)
    )
    findings = [
        Finding(
            "engram-offload", Severity.WARN, "no --engram-config: the tables go to pinned host memory", remedy="add it"
        ),
        Finding("shm-size-unused", Severity.INFO, "shm_size has no effect under --ipc host"),
    ]
    if blocked:
        findings.insert(
            0,
            Finding("foreign-container", Severity.BLOCK, "a container of another deployment holds the GPU", "dgx3",
                    "glm-old-r2", "nothing", "stop it on dgx3, or override by its code"),
        )  # fmt: skip
    sizes = {"system": 5.2, "nccl": 0.43, "model": 73.16, "overhead": 7.4, "kv": 16.8, "free": 18.7}
    words = {
        "system": "in use now",
        "nccl": "NCCL",
        "model": "model",
        "overhead": "overhead",
        "kv": "KV cache",
        "free": "stays",
    }
    budget = {
        "total_bytes": TOTAL,
        "stays_bytes": int(18.7 * GIB),
        "parts": [
            {"key": k, "label": words[k], "size_bytes": int(v * GIB), "source": "measured"} for k, v in sizes.items()
        ],
        "notes": ["boots of this model left 13.9-15.8 GiB at 0.80"],
    }
    return Plan(
        slug, f"{slug} title", "d-" + slug, f"{slug}-b12-aa11", 12, f"{slug} boot 12", "dsv41-flash:local",
        "deepseek-v4-flash", 8000, 3600.0, "dgx1", ranks,
        differs=(Difference("--node-rank", "each rank has its own", tuple(str(r) for r in range(nodes))),),
        findings=tuple(findings),
        memory={f"dgx{r + 1}": budget for r in range(nodes)},
    )  # fmt: skip


def ledger() -> tuple[BootSummary, ...]:
    stages = {"rendezvous": 14.0, "nccl": 9.0, "model": 41.0, "weights": 371.0, "KV cache": 12.0, "graphs": 14.0}
    out = []
    for n in range(11, 0, -1):
        good = n in (3, 7, 8, 10)
        out.append(
            BootSummary(
                f"b{n}", n, "dsv41-flash-8x" if n % 3 else "dsv41-flash-4x", T0 - (12 - n) * 2700,
                "ready" if good else "failed", (f"--gpu-memory-utilization 0.9{n % 4} → 0.80",),
                "" if good else "rank 5: free memory less than asked for",
                540.0 + n * 7 if good else None, {k: v + n for k, v in stages.items()}, int((13.0 + n / 10) * GIB),
                95.9 - n if good else None, "LL128 off" if n == 10 else "",
            )
        )  # fmt: skip
    return tuple(out)


TEXTS = (
    "(Worker_TP{r} pid=383) INFO 09-26 02:5{m}:16 [gpu_model_runner.py:2604] Starting to load model DSV4.1-Flash...",
    "Loading safetensors checkpoint shards:  {p}% Completed | {s}/48 [05:10<03:02, 10.1s/it]",
    "(Worker_TP{r} pid=383) INFO 09-26 02:5{m}:16 [default_loader.py:268] Loading weights took 371.22 seconds",
    "(Worker_TP{r} pid=383) WARNING 09-26 02:5{m}:20 [symm_mem.py:58] SymmMem: Device capability 12.1 not supported",
    "dgx{n}:383:383 [0] NCCL INFO NET/IB : Using [0]rocep1s0f0:1/RoCE [RO]; OOB enp1s0f0np0:10.0.0.{n}<0>",
    "(EngineCore pid=211) INFO 09-26 02:5{m}:31 [kv_cache_utils.py:1087] GPU KV cache size: 3,193,029 tokens",
)


def log_lines(count: int, *, start: int = 0, ranks: int = 8, at: float = T0, every_s: float = 0.05) -> list[LogLine]:
    out = []
    for seq in range(start, start + count):
        rank = seq % ranks
        text = TEXTS[(seq // ranks) % len(TEXTS)]
        text = text.format(r=rank, n=rank + 1, m=seq // 60 % 10, p=seq % 100, s=seq % 48)
        level = "warning" if "WARNING" in text else "info"
        if seq % 97 == 96:
            level, text = (
                "error",
                f"(Worker_TP{rank} pid=383) ERROR 09-26 RuntimeError: NCCL error: remote process exited",
            )
        out.append(LogLine(seq, rank, f"dgx{rank + 1}", seq // ranks, at + seq * every_s, level, "Worker", text))
    return out
