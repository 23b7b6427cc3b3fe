"""Stalls: several signs must agree, and whatever is slow is not stuck."""

from __future__ import annotations

from dataclasses import replace

import pytest

from console.enginelog.stages_model import Stage
from console.enginelog.stall import LIMITS, Pulse, judge_serving, judge_stall

HUNG = Pulse(0, Stage.NCCL, 400.0, 1.1, 96.0, 22.0, 0.0, 0.0, 1.0)
STILL = Pulse(0, Stage.WEIGHTS, 1300.0, 0.05, 0.0, 9.0, 0.0, 200.0, 1.0)


def ranks(pulse: Pulse, count: int = 8) -> list[Pulse]:
    return [replace(pulse, rank=r) for r in range(count)]


def test_a_hung_collective() -> None:
    signs = judge_stall(ranks(HUNG))
    assert len(signs) >= 2
    assert "400 s" in signs[0] and "96% busy at 22 W" in signs[1]


def test_nothing_works_anywhere() -> None:
    signs = judge_stall(ranks(STILL))
    assert signs[1:] == ("no rank reads, writes or sends anything", "no rank uses the CPU")


@pytest.mark.parametrize(
    "moving",
    [
        replace(STILL, cores_busy=14.0),
        replace(STILL, disk_bytes_per_s=4e6),
        replace(STILL, net_bytes_per_s=3e7),
        replace(STILL, gpu_percent=60.0, gpu_watts=55.0),
        replace(STILL, silent_s=30.0),
        replace(STILL, silent_s=None),
    ],
    ids=["compiler", "disk", "nas", "gpu", "speaks", "log-lost"],
)
def test_one_rank_that_moves_is_no_stall(moving: Pulse) -> None:
    pulses = ranks(STILL)
    pulses[5] = replace(moving, rank=5)
    assert judge_stall(pulses) == ()


def test_silence_alone_is_no_stall() -> None:
    silent = Pulse(0, Stage.PROFILE, 1300.0, 1.0, 40.0, None, None, None, 1.0)
    assert judge_stall(ranks(silent)) == ()


def test_without_telemetry_twice_the_limit_is_needed() -> None:
    blind = Pulse(0, Stage.NCCL, 500.0)
    assert judge_stall(ranks(blind)) == ()
    assert len(judge_stall(ranks(replace(blind, silent_s=700.0)))) == 2


def test_old_samples_do_not_count() -> None:
    assert judge_stall(ranks(replace(HUNG, sample_age_s=90.0))) == ()


def test_the_most_patient_stage_counts() -> None:
    pulses = ranks(HUNG)
    pulses[3] = replace(pulses[3], stage=Stage.WEIGHTS)
    assert judge_stall(pulses) == ()


@pytest.mark.parametrize(
    ("stage", "seconds"),
    [
        (Stage.RENDEZVOUS, 600),
        (Stage.WEIGHTS, 18 * 60),
        (Stage.PROFILE, 7 * 60),
        (Stage.WARMUP, 7 * 60),
        (Stage.LOADED, 18 * 60),
    ],
)
def test_limits_leave_room_for_what_healthy_boots_took(stage: Stage, seconds: float) -> None:
    assert LIMITS[stage] > seconds
    assert judge_stall(ranks(replace(HUNG, stage=stage, silent_s=float(seconds)))) == ()


def test_every_stage_of_a_boot_has_a_limit() -> None:
    assert set(LIMITS) == set(Stage) - {Stage.SMOKE, Stage.SERVING}


def test_nothing_known() -> None:
    assert judge_stall([]) == ()


def test_idle_serving_is_silent() -> None:
    assert judge_serving(ranks(HUNG), 0, 0.0, 3000.0) == ()
    assert judge_serving(ranks(HUNG), None, None, None) == ()


def test_requests_without_tokens() -> None:
    assert judge_serving([], 3, 0.0, 80.0) == ()
    assert judge_serving([], 3, 12.0, None) == ()
    assert len(judge_serving(ranks(HUNG), 3, 0.0, 95.0)) == 2
    working = ranks(replace(HUNG, gpu_watts=70.0))
    assert judge_serving(working, 3, 0.0, 95.0) == ()
