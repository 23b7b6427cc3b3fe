"""The bed as pytest fixtures: one for the whole session, up when the first test asks for it, calm before each test.

Whatever uses `bed` carries the mark `bed` and the xdist group "bed", so that one worker runs all of it, with
`pytest -n 2 --dist loadgroup`.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.testbed.bed import Bed, BedUnavailable


@pytest.fixture(scope="session")
def shared_bed() -> Iterator[Bed]:
    """Eight hosts for all tests of this worker."""
    try:
        bed = Bed.up(8)
    except BedUnavailable as reason:
        pytest.skip(str(reason))
    yield bed
    bed.down()


@pytest.fixture
def bed(shared_bed: Bed) -> Iterator[Bed]:
    """The shared bed as if fresh: no faults, no containers, every host on."""
    shared_bed.calm()
    yield shared_bed


@pytest.fixture
def cluster_file(bed: Bed, tmp_path: Path) -> Path:
    """A cluster file for all hosts of the bed."""
    return bed.cluster_toml(tmp_path / "cluster.toml")
