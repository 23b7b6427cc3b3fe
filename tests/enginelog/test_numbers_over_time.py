"""Bars, statistics, metrics and the time that is left."""

from __future__ import annotations

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from console.base.absent import Absent
from console.enginelog.eta import estimate
from console.enginelog.metrics import parse_metrics, parse_samples, rates
from console.enginelog.progress import bytes_per_s, parse_bar, steps
from console.enginelog.stages_model import Stage
from console.enginelog.stats import EngineStats, parse_stats
from tests.enginelog.logs import data, decode, track

SHARDS = "Loading safetensors checkpoint shards:  12% Completed | 6/48 [01:41<11:49, 16.89s/it]"


def test_a_shard_bar() -> None:
    bar = parse_bar(SHARDS)
    assert bar is not None
    assert (bar.label, bar.done, bar.total) == ("Loading safetensors checkpoint shards", 6, 48)
    assert (bar.elapsed_s, bar.remaining_s) == (101.0, 709.0)
    assert bar.per_s == pytest.approx(1 / 16.89)
    rate = bytes_per_s(bar, 475.25)
    assert isinstance(rate, float)
    assert rate / 1e6 == pytest.approx(629.4, abs=0.1)
    assert isinstance(bytes_per_s(bar, Absent("no")), Absent)


def test_a_bar_that_has_no_rate_yet() -> None:
    bar = parse_bar("Loading safetensors checkpoint shards:   0% Completed | 0/48 [00:00<?, ?it/s]")
    assert bar is not None
    assert (bar.fraction, isinstance(bar.remaining_s, Absent), isinstance(bar.per_s, Absent)) == (0.0, True, True)


def test_hours_and_blocks() -> None:
    bar = parse_bar("Capturing CUDA graphs (FULL):  12%|█▎        | 1/8 [1:00:00<7:00:00,  2.67it/s]")
    assert bar is not None
    assert (bar.elapsed_s, bar.remaining_s, bar.per_s, bar.is_graphs) == (3600.0, 25200.0, 2.67, True)


def test_every_state_of_a_bar_is_there() -> None:
    record = next(r for r in decode(data("composed-success.log")) if "PIECEWISE" in r.text and r.kind == "progress")
    assert [bar.done for bar in steps(record)] == list(range(16))


@given(st.text(max_size=200))
def test_no_text_upsets_the_bar(text: str) -> None:
    parse_bar("50%|" + text + "| 1/2 [00:01<00:01, 1.0it/s]")
    parse_bar(text)


def test_statistics_of_the_log() -> None:
    seen: list[EngineStats] = []
    for record in decode(data("composed-success.log")):
        stats = parse_stats(record, seen[-1] if seen else None)
        if stats is not None:
            seen.append(stats)
    assert [s.generation_tps for s in seen[::2]] == [22.4, 61.7, 118.6, 205.3, 0.0]
    fourth = seen[7]
    assert (fourth.engine, fourth.running, fourth.waiting, fourth.prompt_tps) == (0, 8, 1, 11.2)
    assert (fourth.kv_usage, fourth.prefix_hit, fourth.acceptance_length) == (
        pytest.approx(0.013),
        pytest.approx(0.142),
        3.57,
    )
    assert (fourth.draft_acceptance, fourth.accepted_tps, fourth.drafted_tps) == (pytest.approx(0.514), 147.8, 287.5)
    assert seen[-1].idle
    assert not fourth.idle
    assert fourth.as_mapping()["generation_tokens_per_s"] == 205.3
    assert "ttft_count" not in fourth.as_mapping()


def test_the_cpu_build_says_cpu() -> None:
    stats = track("real-cpu-real-boot.log").stats
    assert isinstance(stats, EngineStats)
    assert (stats.kv_usage, stats.running) == (0.0, 0)
    assert isinstance(stats.acceptance_length, Absent)


def test_metrics_of_a_real_engine() -> None:
    stats = parse_metrics(data("real-cpu-metrics.txt"), at=10.0)
    assert (stats.running, stats.waiting, stats.kv_usage, stats.model) == (0, 0, 0.0, "tiny")
    assert (stats.prompt_tokens_total, stats.generation_tokens_total, stats.requests_total) == (34.0, 28.0, 3.0)
    assert stats.ttft_s == pytest.approx(0.0879 / 3, abs=1e-4)
    assert stats.e2e_s == pytest.approx(0.20565 / 3, abs=1e-4)
    assert (stats.prefix_hit, stats.prefix_queries_total) == (0.0, 34.0)
    assert isinstance(stats.acceptance_length, Absent)
    assert isinstance(stats.generation_tps, Absent)


def test_rates_need_two_readings() -> None:
    def reading(at: float, tokens: int) -> EngineStats:
        return parse_metrics(f'vllm:generation_tokens_total{{engine="0"}} {tokens}\n'.encode(), at=at)

    assert rates(reading(10, 100), reading(15, 600)).generation_tps == 100.0
    assert isinstance(rates(reading(10, 100), reading(15, 5)).generation_tps, Absent)
    assert isinstance(rates(reading(10, 100), reading(10, 600)).generation_tps, Absent)


def test_drafts_in_metrics() -> None:
    text = b"vllm:spec_decode_num_drafts_total 100\nvllm:spec_decode_num_draft_tokens_total 500\n"
    stats = parse_metrics(text + b"vllm:spec_decode_num_accepted_tokens_total 242\n")
    assert (stats.acceptance_length, stats.draft_acceptance) == (3.42, 0.484)


def test_labels_may_hold_anything() -> None:
    samples = parse_samples(b'a{x="1\\"},{ \\\\",y="\x1b[31mz"} 2 1700000000\nb NaN\nc +Inf\nd 1e3\n{ 1\n')
    assert samples == {"a": [({"x": '1\\"},{ \\\\', "y": "z"}, 2.0)], "d": [({}, 1000.0)]}


@given(st.one_of(st.binary(max_size=400), st.text(max_size=200).map(lambda t: f'vllm:x{{a="{t}"}} {t}\n'.encode())))
@settings(max_examples=150, deadline=None)
def test_hostile_metrics_never_raise(raw: bytes) -> None:
    parse_metrics(b"vllm:num_requests_running " + raw)
    parse_samples(raw)


@pytest.mark.parametrize("unit", ["_", "a", 'a="b",', "} 1 ", "{"])
def test_hostile_metrics_cost_by_their_length(unit: str) -> None:
    page = f"{('vllm:a{' + unit * 6000)[:5900]}}} 1\n".encode() * 60
    started = time.process_time()
    parse_metrics(page)
    assert time.process_time() - started < 0.3  # at most 0.05; lines that are read again and again took 0.8


BOOTS = [
    {Stage.ARGUMENTS: 20.0, Stage.WEIGHTS: 300.0, Stage.GRAPHS: 20.0, Stage.HTTP: 5.0},
    {Stage.ARGUMENTS: 22.0, Stage.WEIGHTS: 360.0, Stage.GRAPHS: 24.0, Stage.HTTP: 5.0},
    {Stage.ARGUMENTS: 24.0, Stage.WEIGHTS: 420.0, Stage.GRAPHS: 30.0, Stage.HTTP: 5.0},
]


def test_time_left_by_earlier_boots() -> None:
    eta = estimate(Stage.WEIGHTS, 100.0, earlier=BOOTS, deadline_s=400.0)
    assert (eta.seconds, eta.low, eta.high, eta.stage_s) == (289.0, 225.0, 355.0, 260.0)
    assert eta.meets_deadline is True
    assert eta.basis == "3 earlier boots"
    assert estimate(Stage.WEIGHTS, 100.0, earlier=BOOTS, deadline_s=200.0).meets_deadline is False
    assert estimate(Stage.WEIGHTS, 100.0, earlier=BOOTS, deadline_s=300.0).meets_deadline is None
    assert estimate(Stage.WEIGHTS, 100.0, earlier=BOOTS).meets_deadline is None


def test_one_boot_gives_a_wide_band() -> None:
    eta = estimate(None, 0.0, earlier=BOOTS[:1])
    assert eta.seconds == 345.0
    assert (eta.low, eta.high) == (pytest.approx(230.0), pytest.approx(460.0))


def test_time_left_by_the_bar() -> None:
    bar = parse_bar(SHARDS)
    assert bar is not None
    eta = estimate(Stage.WEIGHTS, 101.0, bar=bar, weights_pass=2, passes=2)
    assert isinstance(eta.seconds, Absent)
    assert eta.seconds.reason == "no earlier boot of this recipe to go by"
    assert eta.stage_s == 709.0
    assert estimate(Stage.WEIGHTS, 101.0, bar=bar, deadline_s=60.0).meets_deadline is False
    assert estimate(Stage.WEIGHTS, 101.0, bar=bar, deadline_s=6000.0).meets_deadline is None
    both = estimate(Stage.WEIGHTS, 101.0, bar=bar, weights_pass=2, passes=2, earlier=BOOTS)
    assert both.seconds == 709.0 + 29.0
    first = estimate(Stage.WEIGHTS, 101.0, bar=bar, weights_pass=1, passes=2)
    assert isinstance(first.stage_s, float)
    assert first.stage_s > 709.0


def test_a_boot_that_is_later_than_any() -> None:
    eta = estimate(Stage.WEIGHTS, 500.0, earlier=BOOTS, deadline_s=10.0)
    assert isinstance(eta.high, Absent)
    assert eta.basis == "3 earlier boots; longer in weights than any"
    assert eta.meets_deadline is False


def test_nothing_to_go_by_and_nothing_left() -> None:
    eta = estimate(Stage.KV_CACHE, 5.0, deadline_s=-1.0)
    assert isinstance(eta.stage_s, Absent)
    assert eta.meets_deadline is False
    assert estimate(Stage.SERVING, 5.0).seconds == 0.0
    assert isinstance(
        estimate(Stage.WEIGHTS, 5.0, earlier=[{Stage.SMOKE: 3.0, Stage.HTTP: float("nan")}]).seconds, Absent
    )
