"""A line of the node's kernel log speaks of a boot only where it is known to be written after the launch."""

from __future__ import annotations

from console.base.absent import Absent
from console.services.explain import NodeSigns
from console.telemetry.sample import Container, Containers, GpuApp, KernelLine, Sample

NOW = 1_796_000_000.0
KILLED = "Memory cgroup out of memory: Killed process 23918 (python3)"


def heard(*lines: KernelLine, up: float = 5000.0, at: float = NOW) -> Sample:
    rows = (Container("ab" * 32, "nd-m-r0", Absent(""), "running", pid=311),)
    apps = (GpuApp(412, "VLLM::Worker", 1 << 30),)
    return Sample(
        "spark1", 1, 5.0, up, at, heard_at=at, kernel=lines, containers=Containers(rows, "socket x"), gpu_apps=apps
    )


def test_only_what_the_kernel_wrote_after_the_launch() -> None:
    signs = NodeSigns()
    for second in range(3):  # a probe shows its last lines with each sample
        signs.add(heard(KernelLine(1, 5000.0 - 540.0, KILLED), up=5000.0 + second, at=NOW + second))
    assert signs.kernel_since(NOW - 60.0) == ()
    assert signs.kernel_since(NOW - 600.0) == (KILLED,)
    signs.add(heard(KernelLine(1, 4460.0, KILLED), KernelLine(2, 4990.0, "NVRM: Xid (PCI:1): 79")))
    assert signs.kernel_since(NOW - 60.0) == ("NVRM: Xid (PCI:1): 79",)


def test_a_line_of_an_unknown_time_is_no_proof() -> None:
    signs = NodeSigns()
    signs.add(heard(KernelLine(1, Absent("not told"), KILLED), KernelLine(2, 9000.0, KILLED)))
    assert signs.kernel_since(0.0) == ()


def test_the_processes_of_a_node_that_are_a_ranks() -> None:
    signs = NodeSigns()
    signs.add(heard())
    assert (signs.containers, signs.pids) == ({"nd-m-r0": "ab" * 32}, {311, 412})
