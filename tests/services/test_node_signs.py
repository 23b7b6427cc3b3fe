"""What a node's telemetry adds to a diagnosis."""

from __future__ import annotations

import pytest

from console.base.absent import Absent
from console.services.explain import GIB, NodeSigns
from console.telemetry.sample import Gpu, Memory, Sample
from console.telemetry.sampler import Sampler
from tests.telemetry.test_sampler import frame


def test_a_late_sample_does_not_move_the_nodes_clock() -> None:
    signs, sampler = NodeSigns(), Sampler("dgx1")
    for seq, delay in enumerate((0.02, 3.0, 0.05)):
        one = frame(seq, float(seq))  # the node's wall clock says 1000 + seq, two seconds ahead of ours
        signs.add(sampler.step(one, received_at=seq + delay, wall=998.0 + seq + delay))
    assert signs.offset == pytest.approx(1.98)


@pytest.mark.parametrize("clock", [None, "soon", 4e9, 1000.0 - 86400.0, 1095.0])
def test_the_moment_of_the_lowest_memory_is_the_consoles(clock: object) -> None:
    signs = NodeSigns()
    assert signs.lowest_at is None
    signs.add(Sampler("dgx1").step(frame(1, 5.0, w=clock), received_at=5.0, wall=1_796_000_000.0))
    assert signs.lowest_at == 1_796_000_000.0, "neither 1970 nor what a node's clock says"


def gpu(clock: float, watts: float, util: float = 96.0) -> Gpu:
    return Gpu(0, "GB10", util_percent=util, clock_mhz=clock, power_w=watts)


def at(second: float, *gpus: Gpu, free: int = 20 * GIB, high: int = 10 * GIB) -> Sample:
    memory = Memory(free_bytes=free, high_order_bytes=high)
    return Sample("dgx1", 1, second, 0.0, 0.0, memory=memory, gpus=gpus or Absent("none"))


def test_a_clock_counts_as_latched_after_half_a_minute_of_it() -> None:
    signs = NodeSigns()
    for second in range(30):
        signs.add(at(second, gpu(507, 14)))
        assert not signs.clock_latched
    signs.add(at(30.0, gpu(507, 14)))
    assert signs.clock_latched
    signs.add(at(31.0, gpu(2405, 41)))
    assert not signs.clock_latched, "it is over"
    signs.add(at(32.0, gpu(507, 14)))
    assert not signs.clock_latched, "and begins anew"


@pytest.mark.parametrize(("clock", "watts", "util"), [(507, 14, 10), (2405, 14, 96), (507, 60, 96)])
def test_an_idle_a_fast_or_a_hungry_gpu_is_not_latched(clock: float, watts: float, util: float) -> None:
    signs = NodeSigns()
    for second in range(90):
        signs.add(at(second, gpu(clock, watts, util)))
    assert not signs.clock_latched


def test_memory_is_fragmented_where_much_is_free_and_none_of_it_in_one_piece() -> None:
    signs = NodeSigns()
    for free, high, fragmented in ((20, 10, False), (20, 0, True), (1, 0, False), (20, 2, False)):
        signs.add(at(0.0, free=free * GIB, high=high * GIB))
        assert signs.fragmented is fragmented
