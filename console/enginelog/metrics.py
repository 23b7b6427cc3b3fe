"""Prometheus text of an engine's /metrics, read by hand: hostile input gives fewer samples, never an error."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from typing import Any, Final

from console.base.absent import Absent
from console.base.text import clean_line
from console.enginelog.stats import EngineStats

# Far above the 52 kB of a real engine: what lies beyond is not read.
MAX_BYTES: Final = 4 * 1024 * 1024
MAX_LINE: Final = 8192
# Each is matched where the one before ended and gives nothing back, so that a line is read once, whatever it holds.
_NAME: Final = re.compile(r"[A-Za-z_:][\w:]{0,199}+")
_LABEL: Final = re.compile(r'[ ,]{0,9}+([A-Za-z_]\w{0,99}+)="((?:[^"\\]|\\.){0,2000}+)"')
_LABELS_END: Final = re.compile(r"[ ,]{0,9}+\}")
_VALUE: Final = re.compile(r" {1,99}+([^ \s]{1,40}+)(?: {1,99}+-?\d{1,20}+)?\s*+\Z")
# Names as printed by 0.32; the second of a pair is what other versions call it (public documentation of 0.5 to 0.10).
_GAUGES: Final = {
    "running": ("vllm:num_requests_running",),
    "waiting": ("vllm:num_requests_waiting",),
    "kv_usage": ("vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc"),
}
_COUNTERS: Final = {
    "prompt_tokens_total": ("vllm:prompt_tokens_total",),
    "generation_tokens_total": ("vllm:generation_tokens_total",),
    "requests_total": ("vllm:request_success_total",),
    "preemptions_total": ("vllm:num_preemptions_total",),
    "prefix_queries_total": ("vllm:prefix_cache_queries_total", "vllm:gpu_prefix_cache_queries_total"),
    "prefix_hits_total": ("vllm:prefix_cache_hits_total", "vllm:gpu_prefix_cache_hits_total"),
    "drafts_total": ("vllm:spec_decode_num_drafts_total",),
    "draft_tokens_total": ("vllm:spec_decode_num_draft_tokens_total",),
    "accepted_tokens_total": ("vllm:spec_decode_num_accepted_tokens_total",),
    "ttft_sum_s": ("vllm:time_to_first_token_seconds_sum",),
    "ttft_count": ("vllm:time_to_first_token_seconds_count",),
    "e2e_sum_s": ("vllm:e2e_request_latency_seconds_sum",),
    "e2e_count": ("vllm:e2e_request_latency_seconds_count",),
}
# Shares that the older engine (V0) printed ready-made; it says -1 while there is none.
_SHARES: Final = {
    "prefix_hit": "vllm:gpu_prefix_cache_hit_rate",
    "draft_acceptance": "vllm:spec_decode_draft_acceptance_rate",
}
Samples = dict[str, list[tuple[dict[str, str], float]]]


def parse_samples(data: bytes, *, only: str = "") -> Samples:
    """Samples by name, each with its labels. `only`: a prefix that names must have. Lines that are no samples, values
    that are no finite numbers and whatever lies beyond MAX_BYTES are left out."""
    out: Samples = {}
    for line in data[:MAX_BYTES].decode("utf-8", errors="replace").split("\n"):
        if not line or line[0] == "#" or len(line) > MAX_LINE or not line.startswith(only):
            continue
        sample = _sample(line)
        if sample is not None:
            out.setdefault(sample[0], []).append(sample[1:])
    return out


def _sample(line: str) -> tuple[str, dict[str, str], float] | None:
    name = _NAME.match(line)
    if name is None:
        return None
    at = name.end()
    labels: dict[str, str] = {}
    if line.startswith("{", at):
        at += 1
        while (label := _LABEL.match(line, at)) is not None:
            labels[label[1]] = clean_line(label[2], limit=200)
            at = label.end()
        if (end := _LABELS_END.match(line, at)) is None:
            return None
        at = end.end()
    number = _VALUE.match(line, at)
    try:
        value = float(number[1]) if number is not None else math.nan
    except ValueError:
        return None
    return (name[0], labels, value) if math.isfinite(value) else None


def parse_metrics(data: bytes, *, at: float | None = None) -> EngineStats:
    """The engine's statistics as /metrics gives them, summed over engines; `at` is the moment of the request. Rates are
    Absent here: they need two readings, see `rates`."""
    samples = parse_samples(data, only="vllm:")
    values: dict[str, Any] = {}
    for field, names in (_GAUGES | _COUNTERS).items():
        for name in names:
            if name in samples:
                numbers = [value for _, value in samples[name]]
                # Usage is a share of each engine's own pool: the fullest one counts.
                values[field] = max(numbers) if field == "kv_usage" else sum(numbers)
                break
    for field in ("running", "waiting"):
        if field in values:
            values[field] = int(values[field])
    queries, hits = values.get("prefix_queries_total"), values.get("prefix_hits_total")
    if queries and hits is not None:
        values["prefix_hit"] = min(1.0, hits / queries)
    drafts, accepted = values.get("drafts_total"), values.get("accepted_tokens_total")
    if drafts and accepted is not None:
        values["acceptance_length"] = 1.0 + accepted / drafts
    if values.get("draft_tokens_total") and accepted is not None:
        values["draft_acceptance"] = min(1.0, accepted / values["draft_tokens_total"])
    for field, name in _SHARES.items():
        shares = [v for _, v in samples.get(name, ()) if 0.0 <= v <= 1.0]
        if field not in values and shares:
            values[field] = max(shares)
    for rows in samples.values():
        for labels, _ in rows:
            if model := labels.get("model_name"):
                values.setdefault("model", model)
    return EngineStats("metrics", at=at, **values)


def rates(before: EngineStats, after: EngineStats) -> EngineStats:
    """`after` with tokens per second since `before`; Absent where a counter went back (the engine started anew)."""
    if before.at is None or after.at is None or after.at <= before.at:
        return after
    seconds = after.at - before.at
    changes: dict[str, Any] = {}
    for field, counter in (
        ("prompt_tps", "prompt_tokens_total"),
        ("generation_tps", "generation_tokens_total"),
        ("accepted_tps", "accepted_tokens_total"),
        ("drafted_tps", "draft_tokens_total"),
    ):
        old, new = getattr(before, counter), getattr(after, counter)
        if isinstance(old, Absent) or isinstance(new, Absent):
            continue
        changes[field] = (new - old) / seconds if new >= old else Absent("the engine's counters went back")
    return replace(after, **changes)
