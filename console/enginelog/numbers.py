"""The figures that a rank's log gives of its boot."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Final

from console.base.absent import Absent

NOT_SAID: Final = Absent("not in the log yet")
NOT_JOINED: Final = Absent("no rank has said that it joined")


@dataclass(frozen=True, slots=True)
class Numbers:
    """What the log has said; Absent where it has not.

    arguments: the text of the "non-default args" dict, secrets masked. max_model_len: tokens, of the main model.
    world_size, log_rank: what this rank says of itself; a rank other than the plan's is a fault. joined: ranks of this
    stream that the engine has placed in the world. joined_of: (k, n) where the engine itself names a count.
    engram_mode: "gpu", "pinned host" or "disk". *_gib: binary. model_gib: what "Model loading took" says, which counts
    the GPU allocator alone, so pinned tables are not in it. weights_s: seconds of each pass, draft last.
    checkpoint_ram_gib: RAM that was available as loading began. kv_gib: this rank's KV memory; the smallest of all
    ranks decides. transport: "RoCE", "IB" or "Socket", the last a TCP fallback. graphs: (seconds, GiB) of the final
    capture; sizing_graphs: of the first, which only measures. max_context: tokens per request that `concurrency`
    counts. dtype: what the model computes in; a worker says it only where it is not what the checkpoint has.
    """

    version: str | Absent = NOT_SAID
    arguments: str | Absent = NOT_SAID
    architecture: str | Absent = NOT_SAID
    max_model_len: int | Absent = NOT_SAID
    world_size: int | Absent = NOT_SAID
    log_rank: int | Absent = NOT_SAID
    node_rank: int | Absent = NOT_SAID
    joined: tuple[int, ...] | Absent = NOT_JOINED
    joined_of: tuple[int, int] | Absent = NOT_SAID
    backend: str | Absent = NOT_SAID
    master: str | Absent = NOT_SAID
    engram_mode: str | Absent = NOT_SAID
    engram_gib: float | Absent = NOT_SAID
    model_gib: float | Absent = NOT_SAID
    load_s: float | Absent = NOT_SAID
    weights_s: tuple[float, ...] | Absent = NOT_SAID
    checkpoint_gib: float | Absent = NOT_SAID
    checkpoint_fs: str | Absent = NOT_SAID
    checkpoint_ram_gib: float | Absent = NOT_SAID
    kv_gib: float | Absent = NOT_SAID
    kv_tokens: int | Absent = NOT_SAID
    concurrency: float | Absent = NOT_SAID
    max_context: int | Absent = NOT_SAID
    attention_backend: str | Absent = NOT_SAID
    moe_backend: str | Absent = NOT_SAID
    nccl_version: str | Absent = NOT_SAID
    transport: str | Absent = NOT_SAID
    hcas: tuple[str, ...] | Absent = NOT_SAID
    eager: bool | Absent = NOT_SAID
    sizing_graphs: tuple[float, float] | Absent = NOT_SAID
    graphs: tuple[float, float] | Absent = NOT_SAID
    warmup_s: float | Absent = NOT_SAID
    init_s: float | Absent = NOT_SAID
    api_url: str | Absent = NOT_SAID
    dtype: str | Absent = NOT_SAID

    @property
    def tcp_fallback(self) -> bool | None:
        """True when ranks talk over TCP although an RDMA fabric was meant; None while the log has not said."""
        return None if isinstance(self.transport, Absent) else self.transport == "Socket"

    def as_mapping(self) -> Mapping[str, Any]:
        """What is known, by name, as plain values (for events and JSON)."""
        out: dict[str, Any] = {}
        for item in fields(self):
            value = getattr(self, item.name)
            if not isinstance(value, Absent):
                out[item.name] = list(value) if isinstance(value, tuple) else value
        return out
