"""The head's /metrics in the engine's names: those that monitors read."""
# ruff: noqa: E501 lines of output are kept whole, as they are printed

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class Counts:
    """What an API server has done since it began to listen. started: epoch seconds."""

    started: float
    running: int = 0
    finished: int = 0
    prompt_tokens: int = 0
    generated: int = 0
    drafted: int = 0
    accepted: int = 0


def metrics_text(model: str, c: Counts) -> str:
    """Prometheus text, labelled as vLLM labels it."""
    label = f'{{engine="0",model_name="{model}"}}'
    rows: list[tuple[str, str, str, list[tuple[str, float]]]] = [
        ("process_start_time_seconds", "gauge", "Start time of the process since unix epoch in seconds.", [("", c.started)]),
        ("vllm:num_requests_running", "gauge", "Number of requests in model execution batches.", [(label, c.running)]),
        ("vllm:num_requests_waiting", "gauge", "Number of requests waiting to be processed.", [(label, 0.0)]),
        ("vllm:kv_cache_usage_perc", "gauge", "KV-cache usage. 1 means 100 percent usage.", [(label, min(0.99, c.running * 0.002))]),
        ("vllm:prompt_tokens_total", "counter", "Number of prefill tokens processed.", [(label, c.prompt_tokens)]),
        ("vllm:generation_tokens_total", "counter", "Number of generation tokens processed.", [(label, c.generated)]),
        ("vllm:num_preemptions_total", "counter", "Cumulative number of preemption from the engine.", [(label, 0.0)]),
        ("vllm:prefix_cache_queries_total", "counter", "Prefix cache queries, in terms of number of queried tokens.", [(label, c.prompt_tokens)]),
        ("vllm:prefix_cache_hits_total", "counter", "Prefix cache hits, in terms of number of cached tokens.", [(label, 0.0)]),
        ("vllm:spec_decode_num_draft_tokens_total", "counter", "Number of draft tokens.", [(label, c.drafted)]),
        ("vllm:spec_decode_num_accepted_tokens_total", "counter", "Number of accepted tokens.", [(label, c.accepted)]),
        ("vllm:request_success_total", "counter", "Count of successfully processed requests.", [
            (f'{{engine="0",finished_reason="{reason}",model_name="{model}"}}', c.finished if reason == "stop" else 0)
            for reason in ("stop", "length", "abort")
        ]),
    ]  # fmt: skip
    out = []
    for name, kind, text, values in rows:
        family = name.removesuffix("_total") if kind == "counter" else name
        out.append(
            f"# HELP {family if kind != 'counter' else name} {text}\n# TYPE {family if kind != 'counter' else name} {kind}\n"
        )
        out += [f"{name}{labels} {float(value)}\n" for labels, value in values]
    return "".join(out)
