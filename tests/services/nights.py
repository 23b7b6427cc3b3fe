"""A night's worth of boots as they stand in a journal: figures near published ones, no machine needed."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

from console.files.journal import Journal

T0 = 1_789_765_200.0  # 2026-09-18T21:00:00Z
NODES = tuple(f"dgx{n}" for n in range(1, 9))
STAGES = {
    "rendezvous": 9.0, "nccl": 14.0, "model": 11.0, "weights": 372.0, "loaded": 41.0, "profile": 33.0,
    "kv cache": 6.0, "warmup": 52.0, "graphs": 71.0, "http": 4.0,
}  # fmt: skip
RECIPE = """engine = "vllm"
name = "flash"
docker_image = "dsv41-flash:local"
model = "deepseek-ai/DeepSeek-V4.1-Flash"
required_nodes = 8
tensor_parallel_size = 8
args = ["--gpu-memory-utilization", "{share}", "--max-num-seqs", "8"]
[env]
HF_TOKEN = "***"
"""


def spread(middle: float, width: float, n: int = 3) -> dict[str, Any]:
    return {"median": middle, "min": middle - width, "max": middle + width, "n": n}


def measured(one: float, four: float, width: float = 1.5) -> dict[str, Any]:
    levels = [
        {
            "concurrency": n, "rounds": 3, "failed_rounds": 0, "counted_by": "usage", "errors": [],
            "total_tokens_per_s": spread(v, width), "stream_tokens_per_s": spread(v / n, width / n),
            "ttft_s": spread(0.4 * n, 0.05),
        }
        for n, v in ((1, one), (4, four))
    ]  # fmt: skip
    return {"schema": 1, "levels": levels, "text": "A harbour in winter."}


def boot(journal: Journal, number: int, at: float, *, share: str = "0.80", low: float = 14.0, **row: Any) -> Path:
    """One folder. low: GiB that the head came down to. row: fields of boot.json."""
    measure = row.pop("measure", None)
    seconds = float(row.get("ready_s") or row.pop("lived_s", 400.0))
    with journal.open_boot("flash", now=at, number=number) as folder:
        folder.write_recipe(RECIPE.format(share=share))
        lows = {node: int((low + 0.35 * n) * 2**30) for n, node in enumerate(NODES)}
        folder.write_summary(
            {
                "deployment": f"flash-b{number}", "recipe": "flash", "cluster": "spark8", "nodes": list(NODES),
                "started_at": at, "min_available_by_node": lows, "min_available_bytes": min(lows.values()),
                "stages": STAGES if row.get("ready_s") else {"rendezvous": 9.0, "nccl": 14.0, "weights": 311.0},
                "changed": [], **row,
            }
        )  # fmt: skip
        if measure is not None:
            folder.write_document("measure.json", measure)
    lines = []
    for window in range(int(seconds // 10)):
        share_done = 1 / (1 + math.exp(-(window * 10 - seconds * 0.55) / (seconds * 0.09)))
        for n, node in enumerate(NODES):
            value = 115.8 - (115.8 - low - 0.35 * n) * share_done
            pair = [int(value * 2**30), int((value + 1) * 2**30)]
            lines.append(json.dumps({"at": at + window * 10, "s": 10, "node": node, "n": 10, "mem_available": pair}))
    (folder.path / "telemetry.jsonl").write_text("\n".join(lines) + "\n")
    return folder.path


CAUSE = {
    "class": "oom-weights", "sentence": "Rank 5 on dgx6 ran out of memory while loading weights (needs 97.35 GiB of "
    "91.35 free) <script>alert(1)</script>",
    "action": "Lower --gpu-memory-utilization to 0.75, or free the page cache before the launch.", "rank": 5,
    "node": "dgx6", "stage": "weights",
    "evidence": ["ValueError: Free memory on device (91.35/121.69 GiB) on startup is less than desired",
                 "\x1b]0;evil\x07 | a | table | & <b>markup</b>"],
}  # fmt: skip


def night(journal: Journal) -> dict[str, Any]:
    """Four boots and the state of their night: baseline, a lever that won, one that did not, a failure."""
    text = "Paris. The city lies on the Seine."
    boot(
        journal, 11, T0, ready_s=612.0, state="stopped", tokens_per_s=95.9, smoke_text=text, measure=measured(95.9, 180)
    )
    boot(
        journal, 12, T0 + 1500, share="0.77", ready_s=598.0, state="stopped", tokens_per_s=109.0, smoke_text=text,
        changed=["--gpu-memory-utilization 0.80 -> 0.77"], measure=measured(109.0, 181), low=17.5,
    )  # fmt: skip
    boot(
        journal, 13, T0 + 3000, share="0.91", state="failed", lived_s=360.0, low=2.3, cause=CAUSE,
        changed=["--gpu-memory-utilization 0.77 -> 0.91"], ended_at=T0 + 3360,
    )  # fmt: skip
    boot(
        journal, 14, T0 + 4500, ready_s=640.0, state="ready", tokens_per_s=94.0, smoke_text=text, note="kept",
        changed=["--gpu-memory-utilization 0.91 -> 0.80"],
    )  # fmt: skip
    results = [
        {"label": "baseline", "role": "baseline", "outcome": "served", "measure": measured(95.9, 180)},
        {"label": "share 0.77 1/1", "role": "trial", "outcome": "served", "measure": measured(109.0, 181)},
        {"label": "share 0.91", "role": "trial", "outcome": "failed", "measure": None},
    ]
    return {
        "id": "n20260918T210000Z", "name": "levers", "phase": "done", "left_serving": "flash", "at": T0 + 5200,
        "why": "everything has run; flash serves again", "results": [{**r, "started_at": T0} for r in results],
    }  # fmt: skip
