"""Signatures of lines that name no cause: wrappers around one, ends of processes, and words that only look like faults."""
# ruff: noqa: E501 a signature reads best as a row

from __future__ import annotations

from typing import Final

from console.enginelog.signatures_model import Kind, Signature, sig

_W: Final = Kind.WRAPPER
_B: Final = Kind.BENIGN
_WHERE: Final = "look at the first traceback in time over all ranks"

DIED: Final = sig("killed_from_outside", ("died unexpectedly", "died, exit code"), r"Worker (?P<what2>\S{1,60}) pid \d{1,10} died, exit code: (?P<code2>-?\d{1,4})|(?:Worker proc|Engine core proc|Process)\s(?P<what>\S{1,60})[^\n]{0,20}? died unexpectedly(?: \(exit code: (?P<code>None|-?\d{1,4})\))?",
    "The worker process {what} died (exit code {code}).", "see the kernel's log (dmesg), a memory guard, or who sent the signal; OOMKilled=false is normal on GB10", kind=_W, weight=48)  # fmt: skip
SGLANG_END: Final = sig("cause_not_in_log", ("crashed with exit code", "Received sigquit from a child process"), r"(?:child|subprocess|scheduler|process)[^\n]{0,80}crashed with exit code (?P<code>-?\d{1,4})|Received sigquit from a child process",
    "A child process of the engine ended.", _WHERE, kind=_W, weight=18)  # fmt: skip
RANK_END: Final = sig("cause_not_in_log", "scheduler", r"[Rr]ank (?P<rank>\d{1,6}) scheduler (?:died|is dead)[^\n]{0,60}?\(exit code: (?P<code>-?\d{1,4})\)",
    "The scheduler process of rank {rank} ended (exit code {code}).", "look at the first traceback of that rank; after -9 at the kernel's log of its node (`dmesg -T`) and a memory guard", kind=_W, weight=24)  # fmt: skip
INTERRUPTED: Final = sig("killed_from_outside", ("KeyboardInterrupt",), "",
    "The process was interrupted (Ctrl-C or SIGINT).", "find who or what sent it: a closed terminal, a script, a lost SSH session", weight=58)  # fmt: skip
STOPPING: Final = sig("stop", ("[shutdown]", "Shutting down", "Gracefully stopping", "SIGTERM received", "shutdown triggered"), r"\[shutdown\]|SIGTERM received[^\n]{0,60}(?:shutting|draining)|Gracefully stopping",
    kind=_B, weight=100)  # fmt: skip

NEUTRAL: Final[tuple[Signature, ...]] = (
    DIED,
    SGLANG_END,
    RANK_END,
    INTERRUPTED,
    STOPPING,
    sig("cause_not_in_log", ("WorkerProc hit an exception", "WorkerProc failed to start", "WorkerProc initialization failed", "EngineCore failed to start", "EngineCore encountered a fatal error", "Engine core initialization failed", "EngineDeadError", "EngineCore hit an exception", "Engine process failed to start", "EngineCore encountered an issue", "Engine background task failed", "AsyncEngineDeadError", "output_handler failed", "Engine loop is not running", "got fatal signal from worker processes", "Error executing method", "Exception in worker VllmWorkerProcess"), "",
        "The engine gave up; this line does not say why.", _WHERE, kind=_W, weight=20),
    sig("cause_not_in_log", ("Worker failed with error",), r"Worker failed with error '?(?P<why>[^'\n]{0,200})",
        "A worker failed: {why}.", _WHERE, kind=_W, weight=24),
    sig("cause_not_in_log", ("NCCL error", "ncclInternalError", "ncclUnhandledCudaError", "ncclInvalidUsage", "Scheduler hit an exception", "Rank 0 scheduler died", "scheduler is dead", "Initialization failed. Please see the error messages above", "Exception in callback", "TokenizerManager hit an exception", "DetokenizerManager hit an exception", "ActorDiedError", "RayTaskError", "RayWorkerWrapper", "Executor failed", "executor failed", "Process group watchdog thread terminated", "terminate called after throwing", "Fatal Python error", "Core dumped", "core dumped", "Aborted"), r"NCCL error[^\n]{0,160}(?:unhandled cuda error|internal error|invalid usage)|nccl(?:Internal|UnhandledCuda)Error|ncclInvalidUsage|Scheduler hit an exception|Rank \d{1,4} scheduler (?:died|is dead)|Initialization failed\. Please see|Exception in callback|TokenizerManager hit an exception|ActorDiedError|RayTaskError|RayWorkerWrapper\w{0,40}\(|[Ee]xecutor failed|[Pp]rocess group watchdog thread terminated|terminate called after throwing|Fatal Python error: (?!Bus)[^\n]{0,80}|[Cc]ore dumped",
        "The engine gave up; this line does not say why.", _WHERE, kind=_W, weight=19),
    sig("cause_not_in_log", "ChildFailedError", "", "A process that torchrun started failed; this line does not say why.", _WHERE, kind=_W, weight=21, follow=16),
    sig("ready_timeout", ("Timed out waiting for engine core processes to start", "Timed out waiting for engines to send initial message", "Did not receive response from front-end"), "",
        "The engine's own wait for its processes ran out.", "a slow load needs a longer limit (VLLM_ENGINE_READY_TIMEOUT_S); else look at the ranks that are behind", weight=46),
    sig("engine_dead_serving", ("Server error. EngineDead", "EngineDead was raised"), "", "The engine died while it served.", _WHERE, kind=_W, weight=20),
    sig("benign", ("on startup. Desired GPU memory utilization",), "", kind=_B),
    sig("benign", ("failed to automatically increase",), "", kind=_B),
    sig("benign", ("SymmMemCommunicator", "FlashInfer All Reduce is disabled", "Custom collectives are disabled", "Custom allreduce is disabled", "CPU SHM communicator disabled"), "", kind=_B),
    sig("benign", ("hostname of the client socket cannot be retrieved", "hostname of the client socket"), "", kind=_B),
    sig("benign", ("Triton is installed, but", "numa_migrate_pages failed", "leaked instance", "leaked type", "destroy_process_group() was not called", "leaked semaphore objects", "leaked shared_memory objects", "FutureWarning", "DeprecationWarning"), "", kind=_B),
    sig("benign", ("Call to shutdown failed", "NET/Plugin", "Could not find: libnccl-net", "GDRCopy", "Failed to find any tuner", "Failed to open libibverbs"), r"Call to shutdown failed|NET/Plugin[^\n]{0,200}|Could not find: libnccl-net\S{0,20}|Failed to open libibverbs", kind=_B),
    sig("benign", ("Using default MoE config", "Config file not found at", "Performance might be sub-optimal"), "", kind=_B),
    sig("benign", ("Error with model error=ErrorInfo", "Error in preprocessing prompt inputs", "error=ErrorInfo"), "", kind=_B),
    sig("benign", ("Failed to import from vllm._C", "Failed to import from vllm._moe_C", "Failed to import Triton kernels", "Failed to read", "kernel_warmup failed"), r"Failed to import from vllm\._\w{1,20}|Failed to import Triton kernels", kind=_B),
    sig("benign", ("Received request",), r"Received request \S{1,80}: prompt", kind=_B),
)  # fmt: skip
