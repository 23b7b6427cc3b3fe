"""A rank's longest part: it allocates the model and reads the checkpoint, twice where a draft model is in it."""
# ruff: noqa: E501 lines of output are kept whole, as they are printed

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from console.lab.vllm_text import BUILD, shard_bar

if TYPE_CHECKING:
    from console.lab.vllm_rank import Rank

_SHARDS: Final = 48
# Lab seconds of the two passes over the checkpoint: a warm NFS mount, between the public NVMe and cold-cache figures.
_WEIGHTS_S: Final = 330.0
_DRAFT_S: Final = 62.0


def offload(r: Rank) -> bool:
    """Whether the Engram tables go to pinned host memory: the engine's default."""
    config = r.args.values.get("engram-config")
    return bool(config.get("cpu_offload", True)) if isinstance(config, dict) else True


async def build(r: Rank) -> None:
    say = r.say
    say.log("WORKER", "[gpu_worker.py:438] Using V2 Model Runner")
    say.joined = True
    await r.wait(1)
    say.log("WORKER", "[model_runner.py:394] Loading model from scratch...")
    for line in BUILD:
        say.log("WORKER", line)
    # 111 GiB available fall to about 31 within 5 s, as the parameters are allocated.
    r.load.ramp(r.clock.now(), 84.6 + r.rng.uniform(-0.8, 0.8), 5)
    r.set(util=4, cpu=2)
    for rows in (48_000_771, 48_001_940):
        await r.wait(3)
        if offload(r):
            say.log(
                "WORKER",
                f"[engram.py:884] Engram table offloaded to pinned host memory: {rows} rows x 256, 11.80 GiB per rank",
            )
    await r.wait(3)
    say.log("WORKER", "[engram.py:438] Built engram token map (129280 -> 99092 ids) for layers (1, 14)")
    ram = r.node.machine.available_gib()
    say.log(
        "WORKER",
        f"[weight_utils.py:865] Filesystem type for checkpoints: NFS4. Checkpoint size: 475.25 GiB. Available RAM: {ram:.2f} GiB.",
    )
    say.log(
        "WORKER",
        f"[weight_utils.py:877] Network filesystem (NFS4) detected but checkpoint total size (475.25 GiB) exceeds 90% of available RAM ({ram:.2f} GiB). Skipping auto-prefetch.",
        "WARNING",
    )


async def weights(r: Rank) -> None:
    say = r.say
    begun = r.clock.now()
    slow = 1.16 if r.node.machine.number == 6 else 1.0
    pace = (_WEIGHTS_S * slow * r.rng.uniform(0.96, 1.04)) / _SHARDS
    if r.world.strikes("slow-weights"):
        pace = r.clock.lab(1.6 * _deadline_s(r)) / _SHARDS
    r.load.ramp(r.clock.now(), 93.0 + r.rng.uniform(-0.6, 0.6), pace * _SHARDS)
    r.set(util=9, rx=4.6e8 / slow, tx=6e6, disk=0, cpu=3.2 + 2 * (slow - 1) * 10)
    r.load.disk = 1e6
    await _shards(r, pace)
    say.log(
        "WORKER",
        f"[default_loader.py:430] Loading weights took {r.clock.wall(r.clock.now() - begun):.2f} seconds",
    )
    if r.args.drafts:
        await r.wait(1)
        say.log(
            "WORKER",
            "[utils.py:25] Using the target model's FLASHINFER_MLA_SPARSE_DSV41 attention backend for the DeepSeek-V4 DSpark drafter.",
        )
        second = r.clock.now()
        await _shards(r, _DRAFT_S * slow / _SHARDS)
        say.log(
            "WORKER",
            f"[default_loader.py:430] Loading weights took {r.clock.wall(r.clock.now() - second):.2f} seconds",
        )
    gib = 49.56 if offload(r) else 73.16
    say.log(
        "WORKER",
        f"[model_runner.py:408] Model loading took {gib:.2f} GiB memory and {r.clock.wall(r.clock.now() - begun):.6f} seconds",
    )
    r.set(util=1, cpu=1)


async def _shards(r: Rank, pace: float) -> None:
    """All shards once; only rank 0 draws the bar."""
    begun = r.clock.now()
    for done in range(_SHARDS + 1):
        if done:
            await r.wait(max(0.0, begun + done * pace - r.clock.now()))
        if r.rank == 0:
            r.say.bare("WORKER", "\r" + shard_bar(done, _SHARDS, r.clock.wall(r.clock.now() - begun)))
        await r.faults.after_shard(done / _SHARDS)
    if r.rank == 0:
        r.say.bare("WORKER", "")


def _deadline_s(r: Rank) -> float:
    """Wall seconds that the console gives this boot, as the container itself says it."""
    env = r.container.environment()
    text = r.container.labels.get("nightdeck.ready_timeout_s") or env.get("VLLM_ENGINE_READY_TIMEOUT_S", "1800")
    try:
        return float(text)
    except ValueError:
        return 1800.0
