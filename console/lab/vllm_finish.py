"""A rank's way from loaded to serving: memory profile, KV cache, graphs twice, warm-up, and the head's HTTP server."""
# ruff: noqa: E501 lines of output are kept whole, as they are printed

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from console.lab.logstore import STDERR
from console.lab.machine import MEM_TOTAL_KB
from console.lab.vllm_api import ApiServer
from console.lab.vllm_ends import Exit
from console.lab.vllm_text import ROUTES, graph_bar

if TYPE_CHECKING:
    from console.lab.vllm_rank import Rank

TOTAL_GIB: Final = MEM_TOTAL_KB / 1024 / 1024


async def profile(r: Rank) -> None:
    assert r.group is not None
    say = r.say
    await r.until(r.group.arrive("loaded", r.rank))
    await r.wait(5)
    say.log(
        "WORKER",
        "[encoder_runner.py:132] Encoder cache will be initialized with a budget of 8192 tokens, and profiled with 1 image items of the maximum feature size.",
    )
    r.set(util=38, rx=3e7, tx=3e7, cpu=4)
    r.load.ramp(r.clock.now(), _final_gib(r) - 1.2, 30)
    await r.wait(61)
    if r.rank == 0:
        say.log(
            "CORE",
            "[shm_broadcast.py:733] No available shared memory broadcast block found in 60 seconds. This typically happens when some processes are hanging or doing some time-consuming work (e.g. compilation, weight/kv cache quantization).",
        )
    graphs = await _graphs(r, 10)
    kv = max(0.0, _kv_gib(r) + r.rng.uniform(-0.04, 0.1) * (r.rank > 0))
    await r.wait(1.5)
    if kv < 0.3:
        r.faults.no_kv_cache()
        await _lead_down(r)
    say.log("WORKER", f"[gpu_worker.py:632] Available KV cache memory: {kv:.2f} GiB")
    await r.until(r.group.arrive("kv", r.rank))
    tokens = int(kv * 106_158)
    if r.rank == 0:
        await r.wait(1)
        if tokens < r.args.max_len:
            r.faults.kv_too_small(kv, r.args.max_len)
            r.say.api_failed()
            raise Exit(1)
        say.log(
            "CORE",
            f"[kv_cache_utils.py:2321] GPU KV cache size: {tokens:,} tokens, Maximum concurrency for {r.args.max_len:,} tokens per request: {tokens / r.args.max_len:.2f}x",
        )
    r.graphs_gib = graphs


def _kv_gib(r: Rank) -> float:
    """GiB left for the KV cache: 9.5 at a share of 0.91 with NCCL's own buffers, 15 to 17 at 0.80 with small ones, as
    public boots print it; between these the slope is this simulation's own."""
    small_buffers = "NCCL_BUFFSIZE" in r.container.environment()
    return 9.53 + (r.args.gpu_share - 0.91) * 0.3 * TOTAL_GIB + (10.4 if small_buffers else 0.0)


async def _lead_down(r: Rank) -> None:
    """This rank failed: on the head the wrappers follow, a worker just ends."""
    await r.wait(1)
    if r.rank == 0:
        r.say.engine_failed()
    raise Exit(1)


def _final_gib(r: Rank) -> float:
    """Memory that a serving rank holds: its share of the pool, less what profiling gave back."""
    return max(70.0, r.args.gpu_share * TOTAL_GIB - 9.2) + r.rng.uniform(-0.5, 0.5)


async def _graphs(r: Rank, seconds: float) -> float:
    say = r.say
    r.set(util=96, rx=9e8, tx=8.6e8, cpu=2)
    for title, total, part in (
        ("Capturing CUDA graphs (PIECEWISE)", 15, 0.6),
        ("Capturing CUDA graphs (FULL)", 8, 0.3),
    ):
        await r.wait(seconds * part)
        if r.rank == 0:
            say.logs.add(
                say.prefix("WORKER").encode() + graph_bar(title, total, r.clock.wall(seconds * part)) + b"\n",
                STDERR,
            )
    if r.args.drafts:
        say.log("WORKER", "[speculator.py:141] Capturing model for DSpark speculator...")
        await r.wait(seconds * 0.1)
        if r.rank == 0:
            say.logs.add(
                say.prefix("WORKER").encode()
                + graph_bar("Capturing dspark CUDA graphs (FULL)", 8, r.clock.wall(seconds * 0.1))
                + b"\n",
                STDERR,
            )
    gib = (1.43 if seconds > 5 else 0.58) + 0.05 * (r.rank % 3)
    say.log("WORKER", f"[model_runner.py:974] Graph capturing finished in {seconds:.0f} secs, took {gib:.2f} GiB")
    r.set(util=20, cpu=2)
    return gib


async def warm_up(r: Rank) -> None:
    say = r.say
    assert r.group is not None
    r.load.ramp(r.clock.now(), _final_gib(r), 20)
    await r.wait(8)
    say.log("WORKER", "[kernel_warmup.py:124] JIT kernel warmup starting.")
    r.set(util=61, cpu=6)
    await r.wait(21)
    say.log("WORKER", "[kernel_warmup.py:134] JIT kernel warmup finished in 21.37s.")
    if r.rank == 0:
        say.log(
            "WORKER",
            "[kernel_warmup.py:309] Using FlashInfer autotune cache file: /root/.cache/vllm/flashinfer_autotune/sm121-8xtp.json",
        )
    say.log("WORKER", "[kernel_warmup.py:266] Running FlashInfer autotune with 8192 tokens.")
    r.set(util=88, rx=4e8, tx=4e8, cpu=2)
    await r.wait(18)
    say.log(
        "WORKER",
        "[flashinfer_sparse_mla_warmup.py:66] Autotuning FlashInfer SM120 sparse MLA DSV4 decode with cache: /root/.cache/vllm/flashinfer_autotune/sparse_mla_sm120.json",
    )
    await r.wait(24)
    estimated = r.graphs_gib
    gib = await _graphs(r, 4)
    share = r.args.gpu_share
    say.log(
        "WORKER",
        f"[gpu_worker.py:797] CUDA graph pool memory: {gib:.2f} GiB (actual), {estimated:.2f} GiB (estimated), difference: {estimated - gib:.2f} GiB ({100 * (estimated - gib) / gib:.1f}%).",
    )
    say.log(
        "WORKER",
        f"[gpu_worker.py:860] Free memory on device (115.83/121.69 GiB) on startup. Desired GPU memory utilization is ({share:g}, {share * TOTAL_GIB:.2f} GiB). Actual usage is 84.61 GiB for consumed memory (weights + non-torch), 15.17 GiB for peak activation, and {gib:.2f} GiB for CUDAGraph memory.",
    )
    await r.until(r.group.arrive("warm", r.rank))
    await r.wait(1)
    say.log(
        "WORKER",
        "[jit_monitor.py:85] Kernel JIT monitor activated; monitored JIT compilations during inference will use mode=warn.",
    )
    r.set(cpu=0.4)
    if r.rank:
        r.serving = True
        return
    await r.wait(1)
    say.log("CORE", "[core.py:361] init engine (profile, create kv cache, warmup model) took 152.00 s")
    await r.wait(3)
    host, port = r.args.text("host", "0.0.0.0"), r.args.number("port", 8000)
    say.log("API", "[entry.py:135] Supported tasks: ('generate',)")
    await r.wait(2)
    say.log("API", f"[entry.py:139] Starting vLLM server on http://{host}:{port}")
    say.log("API", "[launcher.py:62] Available routes are:")
    for route, methods in ROUTES:
        say.log("API", f"[launcher.py:70] Route: {route}, Methods: {methods}")
    say.bare("API", "INFO:     Started server process [1]")
    say.bare("API", "INFO:     Waiting for application startup.")
    await r.wait(0.5)
    r.api = ApiServer(r.world, r.node, r.group, r.args, say, r.load)
    r.api.listen(host, port)
    r.loading, r.serving = False, True
    say.bare("API", "INFO:     Application startup complete.")
