"""nvidia-smi as a child of the probe: one that hangs, dies, or speaks in sentences. Time is the test's own."""

from __future__ import annotations

import os
import select
import sys
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from console.probe.smi import APP_FIELDS, GPU_FIELDS, PATIENCE, Smi

GB10 = "0, GPU-7f1a, NVIDIA GB10, 96, 64, 41.20, 2405, 3003, [N/A], [N/A], 0x0000000000000000"


@pytest.fixture
def make(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Smi]]:
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    made: list[Smi] = []

    def build(script: str, query: str = "gpu") -> Smi:
        path = tmp_path / "nvidia-smi"
        path.write_text(f"#!{sys.executable}\n{script}")
        path.chmod(0o755)
        made.append(Smi(query, GPU_FIELDS if query == "gpu" else APP_FIELDS, 1.0))
        return made[-1]

    yield build
    for smi in made:
        smi.end()
        if smi.child is not None:
            smi.child.wait(10)
        if smi.fd >= 0:
            os.close(smi.fd)


def read(smi: Smi, now: float, until: Callable[[], object]) -> None:
    """Take what the program prints, as of `now`, until it was what is waited for."""
    for _ in range(1000):
        if until():
            return
        assert smi.fd >= 0 and select.select([smi.fd], [], [], 20.0)[0], smi.group(now)
        smi.readable(now)
    raise AssertionError(smi.group(now))


def ended(smi: Smi, now: float) -> None:
    """Wait for its end, whatever it still prints."""
    assert smi.child is not None
    smi.child.wait(20)
    while smi.fd >= 0:
        select.select([smi.fd], [], [], 20.0)
        smi.readable(now)


def test_one_that_hangs_is_ended_and_started_again_ever_later(make: Callable[..., Smi]) -> None:
    smi = make("import time\ntime.sleep(600)")
    now, starts = 100.0, []
    smi.step(now)
    for _ in range(5):
        assert smi.child is not None
        starts.append(now)
        first = smi.child.pid
        smi.step(now + PATIENCE - 0.1)
        assert smi.child.poll() is None and not smi.killed
        now += PATIENCE + 0.1
        smi.step(now)
        assert "printed nothing for 10 s" in smi.group(now)["why"] and smi.group(now)["rows"] == []
        ended(smi, now)
        smi.step(now)
        assert smi.child is None
        while smi.child is None:
            now += 0.5
            smi.step(now)
            assert now < 1000.0
        assert smi.child.pid != first
    gaps = [b - a - PATIENCE for a, b in pairwise(starts)]
    assert gaps == sorted(gaps) and gaps[0] < 3.0 and gaps[-1] > 8.0


def test_one_that_hangs_in_the_driver_is_not_joined_by_another(make: Callable[..., Smi]) -> None:
    smi = make("import time\ntime.sleep(600)")
    smi.step(0.0)
    child = smi.child
    assert child is not None

    class Stuck:
        """A process in the driver: no signal ends it."""

        pid = child.pid

        def poll(self) -> None:
            return None

        def kill(self) -> None:
            return None

        def wait(self, seconds: float) -> None:
            return None

    smi.child = Stuck()  # type: ignore[assignment]
    for now in range(1, 200):
        smi.step(float(now))
        assert smi.child.pid == child.pid  # type: ignore[union-attr]
    assert "cannot be ended" in smi.group(200.0)["why"]
    smi.child = child


def test_rows_and_then_silence_leave_no_old_figures(make: Callable[..., Smi]) -> None:
    smi = make(f"import time\nprint({GB10!r}, flush=True)\ntime.sleep(600)")
    smi.step(0.0)
    read(smi, 1.0, lambda: smi.rows)
    assert smi.group(1.0)["why"] == "" and smi.group(1.0)["rows"] == [GB10]
    smi.step(1.0 + PATIENCE + 0.1)
    group = smi.group(1.0 + PATIENCE + 0.1)
    assert group["rows"] == [] and "printed nothing" in group["why"]


@pytest.mark.parametrize(
    "sentence",
    [
        "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make sure that the latest, "
        "correct, NVIDIA driver is installed and running, and, if it is, that it is loaded, at last, in full, and, "
        "to be sure, once, twice, thrice.",
        "Unable to determine the device handle for GPU0: 000F:01:00.0: GPU is lost.  Reboot the system to recover",
        "Failed to initialize NVML: Driver/library version mismatch",
        "No devices were found",
    ],
)
@pytest.mark.parametrize("query", ["gpu", "compute-apps"])
def test_a_sentence_of_the_driver_is_a_reason_and_never_a_row(
    make: Callable[..., Smi], sentence: str, query: str
) -> None:
    smi = make(f"import sys\nprint({sentence!r})\nsys.exit(9)", query)
    smi.step(0.0)
    ended(smi, 0.5)
    smi.step(0.6)
    group = smi.group(0.6)
    assert group["rows"] == [] and sentence[:200] in group["why"] and "t" not in group
