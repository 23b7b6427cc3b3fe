"""Signatures of what starts ranks and watches over them: Ray, torchrun, mpirun, SSH."""
# ruff: noqa: E501 a signature reads best as a row

from __future__ import annotations

from typing import Final

from console.enginelog.signatures_model import Kind, Signature, sig

_RAY: Final = "see `ray status` on the head: every node must have joined, over its fabric address (--node-ip-address, VLLM_HOST_IP), and port 6379 must be open"
_LAST_WORD: Final = "see the kernel's log of that node (`dmesg -T`) and a memory guard; then the log of that process"

# Ends of processes: `code` says of what, as in signatures_neutral.DIED.
RAY_END: Final = sig("killed_from_outside", "Worker exit type: ", r"Worker exit type: (?P<how>SYSTEM_ERROR|NODE_OUT_OF_MEMORY)[^\n]{0,40}(?:Worker exit detail|exit detail): [^\n]{0,60}(?:connection error code 2|exit code (?P<code>None))",
    "A worker process of Ray ended without a last word: killed, or crashed.", _LAST_WORD, kind=Kind.WRAPPER, weight=46)  # fmt: skip
TORCHRUN_END: Final = sig("cause_not_in_log", "failed (exitcode: ", r"failed \(exitcode: (?P<code>-?\d{1,4})\) local_rank: (?P<local>\d{1,4}) \(pid: (?P<pid>\d{1,10})\)",
    "A process that torchrun started failed; this line does not say why.", "look at the first traceback above it, over all ranks", kind=Kind.WRAPPER, weight=22)  # fmt: skip
TORCHRUN_TOLD: Final = sig("killed_from_outside", "death signal", r"Received (?P<signal>\d{1,2}) death signal",
    "The launcher was asked to end (signal {signal}).", "find who or what sent it: a stop, a scheduler's time limit, a closed terminal, a lost SSH session", kind=Kind.WRAPPER, weight=43)  # fmt: skip
MPI_END: Final = sig("cause_not_in_log", "mpirun noticed that process rank ", r"mpirun noticed that process rank (?P<rank>\d{1,6}) with PID \d{1,10} on node (?P<node>[\w.\-]{1,80}) exited on signal (?P<signal>\d{1,2})",
    "Rank {rank} on {node} ended by signal {signal}.", _LAST_WORD, kind=Kind.WRAPPER, weight=47)  # fmt: skip
COMPOSE_END: Final = sig("cause_not_in_log", "exited with code ", r"(?P<what>[\w.\-]{1,80}) exited with code (?P<exit>[1-9]\d{0,2})\b",
    "The container ended (exit code {exit}).", "look at the container's last lines; after 137 at the kernel's log of the node (`dmesg -T`) and a memory guard", kind=Kind.WRAPPER, weight=16)  # fmt: skip
SHELL_END: Final = sig("killed_from_outside", ("Killed", "Segmentation fault", "Aborted"), r"line \d{1,6}: {1,6}\d{1,10} (?P<how>Killed|Segmentation fault|Aborted)\b|^(?P<how2>Killed|Segmentation fault|Aborted)(?: \(core dumped\))?$",
    "The process ended by a signal: {how}.", _LAST_WORD, kind=Kind.WRAPPER, weight=47)  # fmt: skip
ENDS: Final = (RAY_END, TORCHRUN_END, TORCHRUN_TOLD, MPI_END, COMPOSE_END, SHELL_END)

LAUNCHERS: Final[tuple[Signature, ...]] = (
    *ENDS,
    sig("cause_not_in_log", ("MPI_ABORT was invoked", "causing the job to be terminated"), r"MPI_ABORT was invoked on rank \d{1,6}|thus causing the job to be terminated",
        "A rank gave up; this line does not say why.", "look at the first error above it, over all ranks", kind=Kind.WRAPPER, weight=20),
    sig("node_unreachable", ("ssh: connect to host ", "ssh_exchange_identification", "kex_exchange_identification", "Host key verification failed", "ORTE was unable to reliably start", "PRTE has lost communication", "lost communication with a remote daemon"), r"ssh: connect to host (?P<host>[\w.:\-]{1,100}) port \d{1,5}: [^\n]{1,60}|(?:ssh|kex)_exchange_identification: [^\n]{1,80}|Host key verification failed|ORTE was unable to reliably start one or more daemons|lost communication with a remote daemon|PRTE has lost communication",
        "The launcher could not reach a node by SSH.", "try `ssh NODE true` from the head, as the same user and without a password prompt; check host keys and the address", weight=86, alone=True),
    sig("node_unreachable", "its node has died", r"(?:actor|task)[^\n]{0,80}its node has died[^\n]{0,120}",
        "Ray lost a node.", "check that node's power, link and SSH, and the raylet's log there", weight=84),
    sig("host_oom", "killed due to memory pressure", r"(?P<count>[1-9]\d{0,3}) Workers \(tasks / actors\) killed due to memory pressure \(OOM\)(?:[^\n]{0,200}?IP: (?P<node>[\d.]{7,15}))?",
        "Ray itself killed workers ({count}) because their node ran low on memory.", "on unified memory Ray counts the model as the host's memory: lower the engine's share, or start Ray with RAY_memory_monitor_refresh_ms=0 on every node and watch MemAvailable yourself", weight=90, alone=True),
    sig("rendezvous_timeout", ("Failed to connect to GCS", "Unable to connect to GCS", "Could not find any running Ray instance", "Failed to register worker", "GCS service is unreachable", "could not connect to Ray"), r"(?:Failed|Unable) to connect to GCS[^\n]{0,120}|Could not find any running Ray instance|Failed to register worker [0-9a-f]{1,80} to Raylet|GCS service is unreachable",
        "This node did not join the Ray cluster.", _RAY, weight=84, stage="rendezvous", alone=True),
    sig("rank_args_differ", "Version mismatch: ", r"Version mismatch: The cluster was started with:",
        "Nodes run different versions of Ray or Python.", "use the same image on all nodes; compare image ids", weight=86, stage="rendezvous", alone=True),
    sig("ray_resources_missing", "Waiting for creating a placement group", r"Waiting for creating a placement group of specs for (?P<seconds>\d{1,7}) seconds",
        "The engine waits for Ray to have GPUs, for {seconds} s by now.", "see `ray status`: every node must have joined, with its GPU free, and VLLM_HOST_IP must be the address that Ray knows the node by", kind=Kind.HINT, weight=40, stage="rendezvous"),
    sig("ray_resources_missing", ("Not enough resources to allocate", "Placement group creation timed out"), r"Not enough resources to allocate \d{1,4} placement groups?[^\n]{0,160}|Placement group creation timed out",
        "Ray has not the GPUs that the engine asks for.", "see `ray status`: every node must have joined, with its GPU free", weight=82, stage="rendezvous"),
    sig("nccl_wrong_interface", "Every node should have a unique IP address", r"Every node should have a unique IP address\. Got (?P<nodes>\d{1,4}) nodes? with [^\n]{0,400}? and (?P<ips>\d{1,4}) unique IP addresses",
        "{nodes} nodes gave {ips} addresses: each must give one, and the one that Ray knows it by.", "set VLLM_HOST_IP on every node to the address that `ray start --node-ip-address` was given there", weight=90, stage="rendezvous"),
)  # fmt: skip
