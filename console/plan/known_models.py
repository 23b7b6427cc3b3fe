"""Models whose memory was measured and published: figures with their sources, per rank."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

GIB: Final = 1 << 30
GB: Final = 10**9


@dataclass(frozen=True, slots=True)
class KnownModel:
    """Published measurements of one model. ranks: the number of ranks they hold for. Bytes are per rank.

    resident: everything that "Model loading took" counts, tables included. tables: extra embedding tables in it.
    overhead: what the engine's share holds beside model and KV pool (activations, graphs, workspaces).
    kv_tokens_per_gib: lowest and highest seen. sum_*: the figures, in bytes over all ranks (sum_process: per rank), of
    the sum that circulates in recipes; true_tables: what the tables take in the checkpoint's own type."""

    ids: tuple[str, ...]
    ranks: int
    resident: int
    tables: int
    overhead: int
    kv_tokens_per_gib: tuple[int, int]
    engram: bool
    source: str
    sum_weights: int | None = None
    sum_tables: int | None = None
    sum_process: int | None = None
    true_tables: int | None = None


# 73.16 GiB on every rank, and at utilisation 0.80 of 121.69 GiB a KV budget of 14.96-17.18 GiB = 3,193,029 tokens:
# rhys101/DeepSeek-V4.1-Flash-vLLM-DGX-Spark-8, docs/memory-footprint.md. So model and overhead are 80.2-82.4 GiB; the
# middle is taken: overhead = 97.35 - 73.16 - 16.07 = 8.12 GiB. Engram in FP8: 203 GB / 8 = 25.4 GB = 23.6 GiB
# [inferred from 23.60 GiB per layer and rank at four ranks].
_DSV41: Final = KnownModel(
    ids=("deepseek-ai/DeepSeek-V4.1-Flash", "DeepSeek-V4.1-Flash"),
    ranks=8,
    resident=round(73.16 * GIB),
    tables=203 * GB // 8,
    overhead=round(8.12 * GIB),
    kv_tokens_per_gib=(208_000, 234_000),
    engram=True,
    source="73.16 GiB on every rank with Engram, draft and vision, measured at 8 ranks (rhys101, 2026-09-11)",
    sum_weights=307_300_000_000,
    sum_tables=406 * GB,
    sum_process=12 * GB,
    true_tables=203 * GB,
)
KNOWN_MODELS: Final = (_DSV41,)


def known_model(model: str) -> KnownModel | None:
    """The published figures for a model's id, or for a folder of that name. The served name does not count: an alias
    says nothing of what is served."""
    last = model.rstrip("/").rsplit("/", 1)[-1].lower()
    for known in KNOWN_MODELS:
        if any(model.lower() == i.lower() or last == i.rsplit("/", 1)[-1].lower() for i in known.ids):
            return known
        if any(
            part == f"models--{i.replace('/', '--')}".lower() for part in model.lower().split("/") for i in known.ids
        ):
            return known
    return None
