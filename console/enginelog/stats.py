"""The engine's own statistics lines, and one shape for them and for /metrics."""

from __future__ import annotations

import re
from dataclasses import dataclass, fields, replace
from typing import Any, Final

from console.base.absent import Absent
from console.enginelog.records import Record

_UNSAID: Final = Absent("the engine has not said")
_NUMBER: Final = r"(\d[\d,]{0,19}(?:\.\d{1,12})?)"
# An idle engine prints one line of zeros and falls silent (its logger drops to debug): silence is no fault.
_ENGINE: Final = re.compile(r"Engine (\d{1,4}): ")
_FIELDS: Final = {
    "prompt_tps": re.compile(r"Avg prompt throughput: " + _NUMBER),
    "generation_tps": re.compile(r"Avg generation throughput: " + _NUMBER),
    "running": re.compile(r"Running: (\d{1,9}) reqs"),
    "waiting": re.compile(r"Waiting: (\d{1,9}) reqs"),
    "kv_usage": re.compile(r"KV cache usage: " + _NUMBER + "%"),
    "prefix_hit": re.compile(r"(?<!External )Prefix cache hit rate: " + _NUMBER + "%"),
    "mm_hit": re.compile(r"MM cache hit rate: " + _NUMBER + "%"),
}
_SPEC_FIELDS: Final = {
    "acceptance_length": re.compile(r"Mean acceptance length: " + _NUMBER),
    "draft_acceptance": re.compile(r"Avg Draft acceptance rate: " + _NUMBER + "%"),
    "accepted_tps": re.compile(r"Accepted throughput: " + _NUMBER),
    "drafted_tps": re.compile(r"Drafted throughput: " + _NUMBER),
}
_PERCENT: Final = frozenset({"kv_usage", "prefix_hit", "mm_hit", "draft_acceptance"})
_WHOLE: Final = frozenset({"running", "waiting"})


@dataclass(frozen=True, slots=True)
class EngineStats:
    """What an engine says of its service.

    *_tps: tokens per second, averaged over the engine's own ten seconds. running, waiting: requests. kv_usage,
    prefix_hit, mm_hit, draft_acceptance: 0..1. acceptance_length: tokens per step, 1.0 when drafts are never accepted,
    which is a sign of garbled output. *_total, sums and counts: counters since the start, from /metrics alone. at:
    epoch seconds of the docker stamp or of the request; log_at: the engine's own time (see Record).
    """

    source: str
    engine: int | Absent = _UNSAID
    at: float | None = None
    log_at: float | None = None
    prompt_tps: float | Absent = _UNSAID
    generation_tps: float | Absent = _UNSAID
    running: int | Absent = _UNSAID
    waiting: int | Absent = _UNSAID
    kv_usage: float | Absent = _UNSAID
    prefix_hit: float | Absent = _UNSAID
    mm_hit: float | Absent = _UNSAID
    acceptance_length: float | Absent = _UNSAID
    draft_acceptance: float | Absent = _UNSAID
    accepted_tps: float | Absent = _UNSAID
    drafted_tps: float | Absent = _UNSAID
    prompt_tokens_total: float | Absent = _UNSAID
    generation_tokens_total: float | Absent = _UNSAID
    requests_total: float | Absent = _UNSAID
    preemptions_total: float | Absent = _UNSAID
    prefix_queries_total: float | Absent = _UNSAID
    prefix_hits_total: float | Absent = _UNSAID
    drafts_total: float | Absent = _UNSAID
    draft_tokens_total: float | Absent = _UNSAID
    accepted_tokens_total: float | Absent = _UNSAID
    ttft_sum_s: float | Absent = _UNSAID
    ttft_count: float | Absent = _UNSAID
    e2e_sum_s: float | Absent = _UNSAID
    e2e_count: float | Absent = _UNSAID
    model: str | Absent = _UNSAID

    @property
    def ttft_s(self) -> float | Absent:
        """Mean time to the first token since the start, seconds."""
        return _mean(self.ttft_sum_s, self.ttft_count)

    @property
    def e2e_s(self) -> float | Absent:
        """Mean time of a whole request since the start, seconds."""
        return _mean(self.e2e_sum_s, self.e2e_count)

    def as_mapping(self) -> dict[str, float]:
        """The known figures by name, rates as `..._tokens_per_s` (for events and JSON)."""
        out: dict[str, float] = {}
        for item in fields(self):
            value = getattr(self, item.name)
            if isinstance(value, (int, float)) and item.name not in ("at", "log_at"):
                out[item.name.replace("_tps", "_tokens_per_s")] = value
        return out

    @property
    def idle(self) -> bool:
        """True when the engine says that nothing runs and nothing waits."""
        return self.running == 0 and self.waiting == 0


def parse_stats(record: Record, before: EngineStats | None = None) -> EngineStats | None:
    """The statistics of one log line, or None. A speculative-decoding line comes beside its engine line and adds to
    `before`; an engine line starts anew but keeps the acceptance that `before` knew."""
    text = record.text
    if "Avg prompt throughput" in text:
        values = _values(text, _FIELDS)
        found = _ENGINE.search(text)
        if found:
            values["engine"] = int(found[1])
        if before is not None:
            values.update({name: getattr(before, name) for name in _SPEC_FIELDS})
        return EngineStats("log", at=record.docker_at, log_at=record.log_at, **values)
    if "SpecDecoding metrics" in text:
        values = _values(text, _SPEC_FIELDS)
        base = before if before is not None else EngineStats("log", at=record.docker_at, log_at=record.log_at)
        return replace(base, **values)
    return None


def _values(text: str, fields: dict[str, re.Pattern[str]]) -> dict[str, Any]:
    out: dict[str, Any] = {}
    for name, pattern in fields.items():
        found = pattern.search(text)
        if found is None:
            continue
        value = float(found[1].replace(",", ""))
        out[name] = int(value) if name in _WHOLE else value / 100.0 if name in _PERCENT else value
    return out


def _mean(total: float | Absent, count: float | Absent) -> float | Absent:
    if isinstance(total, Absent):
        return total
    if isinstance(count, Absent):
        return count
    return total / count if count > 0 else Absent("no request yet")
