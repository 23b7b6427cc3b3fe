"""Signatures of what a node's kernel writes: the GPU's driver, a CPU that stands still, a file server that is silent."""
# ruff: noqa: E501 a signature reads best as a row

from __future__ import annotations

from typing import Final

from console.enginelog.signatures_model import Kind, Signature, sig

_DRIVER: Final = "read the Xid in NVIDIA's list; reboot the node, and power-cycle it where that does not help (unplug its adapter for 30 s)"
_SERVER: Final = "check the file server and the way to it (`ping`, `showmount -e`, `nfsstat -m`); reads wait until it answers, and a boot that waits for it is not lost"

NODE: Final[tuple[Signature, ...]] = (
    # Faults of a program: an illegal access, an exception in a kernel, a channel that was stopped for it.
    sig("kernel_runtime_failure", "NVRM: Xid", r"NVRM: Xid \([^)]{0,60}\): (?P<xid>13|31|43|45|68|69)\b",
        "The GPU's driver stopped a program for a fault in one of its kernels (Xid {xid}).", "find the engine's own error of that moment; try another attention or MoE backend, or --enforce-eager", weight=76, alone=True),
    sig("kernel_runtime_failure", "NVRM: Xid", r"NVRM: Xid \([^)]{0,60}\): (?P<xid>48|61|62|63|64|74|79|92|94|95|119|120|122|123|136|140|143|154)\b",
        "The GPU or its firmware failed (Xid {xid}).", _DRIVER, weight=89, alone=True),
    sig("host_wedged", ("soft lockup", "hard LOCKUP"), r"BUG: soft lockup - CPU#(?P<cpu>\d{1,4}) stuck for (?P<seconds>\d{1,6})s|hard LOCKUP on cpu (?P<cpu2>\d{1,4})",
        "A CPU of the node stood still in the kernel: the node is overloaded or wedged.", "look at MemAvailable and at the kernel's log before it; a node that stays silent needs a power-cycle", kind=Kind.SYMPTOM, weight=68),
    sig("host_wedged", "rcu_preempt detected stalls", r"rcu: INFO: rcu_\w{1,20} (?:self-)?detected stalls?",
        "The node's kernel stalls: it is overloaded or wedged.", "look at MemAvailable and at the kernel's log before it; a node that stays silent needs a power-cycle", kind=Kind.SYMPTOM, weight=60),
    sig("stale_mount", "blocked for more than ", r"INFO: task (?P<task>[\w:./\-]{1,40}):\d{1,10} blocked for more than (?P<seconds>\d{1,6}) seconds",
        "{task} waited {seconds} s for a disk or a file server.", "see what it waits for (`cat /proc/PID/stack`); check the disk and network mounts of that node", kind=Kind.SYMPTOM, weight=55),
    sig("stale_mount", ("not responding, still trying", "not responding, timed out"), r"nfs: server (?P<who>[\w.:\-]{1,100}) not responding, (?P<how>still trying|timed out)",
        "The file server {who} did not answer that node.", _SERVER, kind=Kind.SYMPTOM, weight=66),
    sig("stale_mount", "nfs: server", r"nfs: server (?P<who>[\w.:\-]{1,100}) OK\b",
        "The file server answers again.", _SERVER, kind=Kind.RECOVERED),
)  # fmt: skip
