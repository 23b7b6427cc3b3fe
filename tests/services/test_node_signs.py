"""What a node's telemetry adds to a diagnosis."""

from __future__ import annotations

import pytest

from console.services.explain import NodeSigns
from console.telemetry.sampler import Sampler
from tests.telemetry.test_sampler import frame


def test_a_late_sample_does_not_move_the_nodes_clock() -> None:
    signs, sampler = NodeSigns(), Sampler("dgx1")
    for seq, delay in enumerate((0.02, 3.0, 0.05)):
        one = frame(seq, float(seq))  # the node's wall clock says 1000 + seq, two seconds ahead of ours
        signs.add(sampler.step(one, received_at=seq + delay, wall=998.0 + seq + delay))
    assert signs.offset == pytest.approx(1.98)
