"""Signatures of memory: the device's, the KV cache's, the host's."""
# ruff: noqa: E501 a signature reads best as a row

from __future__ import annotations

from typing import Final

from console.enginelog.signatures_model import Kind, Signature, sig

_LESS: Final = "lower --gpu-memory-utilization, shrink the NCCL buffers (NCCL_BUFFSIZE, NCCL_MAX_NCHANNELS), end other processes on that node, or drop its page cache"

MEMORY: Final[tuple[Signature, ...]] = (
    sig("gpu_memory_gate", "Free memory on device", r"Free memory on device (?P<device>[\w:]{0,20}) ?\((?P<free>[\d.]{1,12})/(?P<total>[\d.]{1,12}) GiB\) on startup is less than desired GPU memory utilization \((?P<share>[\d.]{1,8}), (?P<wanted>[\d.]{1,12}) GiB\)",
        "At worker start {free} of {total} GiB were free, and a share of {share} asks for {wanted} GiB.", _LESS, weight=95),
    sig("gpu_memory_gate", ("No available memory for", "Not enough memory. Please try"), r"Not enough memory\. Please try to increase --mem-fraction-static",
        "The static memory share leaves no room on the device.", "raise --mem-fraction-static, or end what else holds memory on that node", weight=85),
    sig("gpu_memory_gate", "memory capacity is unbalanced", r"memory capacity is unbalanced[^\n]{0,300}",
        "The free memory differs too much between ranks at start.", "see what else runs on the node with the least free memory", weight=80),
    sig("no_kv_cache_memory", "No available memory for the cache blocks", "",
        "After weights and profiling nothing was left for the KV cache.", "raise --gpu-memory-utilization if the node has memory to give, or lower --max-num-batched-tokens, --max-num-seqs or the graph sizes", weight=90),
    sig("no_kv_cache_memory", "Available KV cache memory: -", r"Available KV cache memory: -[\d.]{1,12} GiB",
        "After weights and profiling the memory left for the KV cache is below zero.", "raise --gpu-memory-utilization if the node has memory to give, or lower what profiling needs", kind=Kind.HINT, weight=40),
    sig("no_kv_cache_memory", "Loading failed: not enough memory for KV", "", "Nothing was left for the KV cache.", _LESS, weight=85),
    sig("kv_cache_too_small", ("To serve at least one request with",), r"To serve at least one request with the model'?s'?s? max seq len \((?P<length>[\d,]{1,12})\),? \(?(?P<needed>[\d.]{1,12}) GiB KV cache is needed, which is larger than the available KV cache memory \((?P<have>[\d.]{1,12}) GiB\)",
        "One request of {length} tokens needs {needed} GiB of KV cache; {have} GiB are there.", "lower --max-model-len, or raise --gpu-memory-utilization as far as the node's MemAvailable allows", weight=92),
    sig("kv_cache_too_small", ("To serve at least one request with",), "",
        "The KV cache holds less than one request of the longest length.", "lower --max-model-len, or raise --gpu-memory-utilization as far as the node's MemAvailable allows", weight=90),
    sig("kv_cache_too_small", "larger than the maximum number of tokens that can be stored in KV cache", r"max seq len \((?P<length>\d{1,12})\) is larger than the maximum number of tokens that can be stored in KV cache \((?P<have>\d{1,12})\)",
        "One request may have {length} tokens; the KV cache holds {have}.", "lower --max-model-len, or raise --gpu-memory-utilization as far as the node's MemAvailable allows", weight=90),
    sig("kv_cache_too_small", "larger than the maximum number of tokens", "",
        "The KV cache holds fewer tokens than one request may have.", "lower --max-model-len, or raise --gpu-memory-utilization as far as the node's MemAvailable allows", weight=85),
    sig("gpu_oom", "out of memory", r"OutOfMemoryError: CUDA out of memory\. Tried to allocate (?P<size>[\d.]{1,12} [KMGT]iB)",
        "The device had no room for another {size}.", "lower --gpu-memory-utilization (SGLang: --mem-fraction-static), --max-num-seqs or --max-num-batched-tokens; look for another process on that GPU", weight=88),
    sig("gpu_oom", ("out of memory", "CUBLAS_STATUS_ALLOC_FAILED", "cudaErrorMemoryAllocation", "CUDA_ERROR_OUT_OF_MEMORY", "due to insufficient GPU memory"), r"CUDA out of memory|due to insufficient GPU memory|CUDA (?:driver )?error[^\n]{0,80}out of memory|CUBLAS_STATUS_ALLOC_FAILED|cudaErrorMemoryAllocation|CUDA_ERROR_OUT_OF_MEMORY|Failed: Cuda error[^\n]{0,80}out of memory",
        "A device allocation failed.", "lower --gpu-memory-utilization (SGLang: --mem-fraction-static, TensorRT-LLM: free_gpu_memory_fraction), --max-num-seqs or --max-num-batched-tokens; on unified memory look at what else runs on that node", weight=80),
    sig("gpu_oom", "NVML_SUCCESS ==", r"NVML_SUCCESS == \w{1,20} INTERNAL ASSERT FAILED[^\n]{0,60}CUDACachingAllocator",
        "A device allocation failed, and then the driver could not say how much memory there is.", "lower --gpu-memory-utilization; on unified memory look at what else runs on that node", weight=78),
    sig("gpu_oom", "Cuda failure", r"NCCL WARN Cuda failure[^\n]{0,40}'out of memory'",
        "NCCL could not allocate device memory.", "make the NCCL buffers smaller (NCCL_BUFFSIZE, NCCL_MAX_NCHANNELS) or leave more memory free", weight=82),
    sig("host_oom", ("oom-kill", "Out of memory: Killed process", "Memory cgroup out of memory"), r"(?:Out of memory: Killed process|Memory cgroup out of memory: Killed process) (?P<pid>\d{1,10}) \((?P<what>[^)]{0,40})\)",
        "The kernel ran out of memory and killed {what} (process {pid}).", "leave more memory free: lower the engine's share, MAX_JOBS, or what else runs on the node", weight=97),
    sig("host_oom", "invoked oom-killer", r"(?P<what>[\w:./\-]{1,40}) invoked oom-killer",
        "The kernel ran out of memory when {what} asked for more.", "leave more memory free: lower the engine's share, MAX_JOBS, or what else runs on the node", weight=93),
    sig("host_oom", ("oom-kill", "Out of memory: Killed process", "Memory cgroup out of memory", "invoked oom-killer"), "",
        "The kernel's OOM killer ran.", "leave more memory free: lower the engine's share, MAX_JOBS, or what else runs on the node", weight=92),
    sig("host_oom", "systemd-oomd", r"systemd-oomd[^\n]{0,40}Killed (?P<what>\S{1,120}) due to memory",
        "systemd-oomd killed {what} for memory.", "leave more memory free on that node; exclude the engine from systemd-oomd", weight=90),
    sig("host_oom", ("earlyoom", "sending SIGTERM to process", "sending SIGKILL to process"), r"sending SIG(?:TERM|KILL) to process (?P<pid>\d{1,10})[^\"\n]{0,80}\"(?P<what>[^\"\n]{0,60})\"",
        "earlyoom ended {what} (process {pid}) because the node ran short of memory.", "exclude the engine from earlyoom, or leave it more memory", weight=96),
    sig("host_oom", ("Cannot allocate memory", "std::bad_alloc", "MemoryError", "unable to allocate"), r"\[Errno 12\] Cannot allocate memory|std::bad_alloc|(?:^|\s)MemoryError\b|numpy\.core\._exceptions\._ArrayMemoryError|DefaultCPUAllocator: (?:can't|not enough memory)",
        "The host refused an allocation.", "leave more memory free on that node: fewer workers, less pinned memory, no other jobs", weight=78),
    sig("host_oom", "t allocate memory: you tried to allocate", r"DefaultCPUAllocator: can't allocate memory: you tried to allocate (?P<size>\d{1,20}) bytes",
        "The host had no room for {size} bytes more.", "leave more memory free on that node", weight=84),
    sig("host_oom", ("likely due to Out of Memory", "OutOfMemoryError: Task was killed", "memory on the node"), r"Task was killed due to the node running low on memory|worker process[^\n]{0,80}running low on memory",
        "Ray ended a worker because its node ran low on memory.", "leave more memory free on that node, or raise RAY_memory_usage_threshold", weight=86),
    sig("guard_tripped", "TRIPPED", r"TRIPPED[^\n]{0,200}",
        "A memory guard on the node stopped the engine at its floor.", "read the guard's floor and MemAvailable at that moment; lower the engine's share or the floor", weight=96),
    sig("host_oom", "NV_ERR_NO_MEMORY", r"NVRM: [^\n]{0,120}NV_ERR_NO_MEMORY",
        "The GPU driver could not allocate memory; by itself no proof, healthy boots write it too.", "compare with MemAvailable and /proc/buddyinfo at that moment; fragmentation goes away with a reboot", kind=Kind.HINT, weight=30),
)  # fmt: skip
