"""The table of signatures: every row of the failures reference has a line that it knows, and each pattern is cheap."""
# ruff: noqa: E501 lines of logs are kept whole, as they are printed

from __future__ import annotations

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from console.enginelog.diagnose import diagnose
from console.enginelog.evidence_collect import CauseCollector
from console.enginelog.signatures import _INDEX, SIGNATURES, UNSEEN, _rarest, advice, matches
from console.enginelog.signatures_model import Kind, filled, said
from tests.enginelog.excerpts import excerpts
from tests.enginelog.logs import LOGS, data, decode

# The number of the row, the class, and a line as it is printed.
ROWS: list[tuple[int, str, str]] = [
    (1, "gpu_memory_gate", "ValueError: Free memory on device cuda:0 (98.21/121.69 GiB) on startup is less than desired GPU memory utilization (0.91, 110.74 GiB). Decrease GPU memory utilization"),
    (2, "no_kv_cache_memory", "ValueError: No available memory for the cache blocks. Try increasing `gpu_memory_utilization` when initializing the engine."),
    (3, "kv_cache_too_small", "ValueError: To serve at least one request with the models's max seq len (524288), (9.52 GiB KV cache is needed, which is larger than the available KV cache memory (4.1 GiB)."),
    (4, "gpu_oom", "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.50 GiB. GPU 0 has a total capacity of 121.69 GiB"),
    (5, "host_oom", "NVRM: nvCheckOkFailedNoLog: Check failed: Out of memory [NV_ERR_NO_MEMORY] (0x00000051) returned from x"),
    (6, "unsupported_backend_combo", "ValueError: No common block size for 64. "),
    (7, "unsupported_backend_combo", "RuntimeError: Assertion error (csrc/apis/attention.hpp:112): block_kv == 32 || block_kv == 64"),
    (7, "unsupported_backend_combo", "AssertionError: block_kv == 32 or block_kv == 64"),
    (8, "kernel_runtime_failure", "RuntimeError: persistent_topk failed: invalid argument"),
    (9, "jit_build_failed", "ninja: build stopped: subcommand failed."),
    (9, "host_oom_during_jit", "FAILED: [code=137] batch_prefill_ragged_kernel_mask_0.cuda.o"),
    (10, "rendezvous_timeout", "torch.distributed.DistStoreError: Timed out after 601 seconds waiting for clients. 7/8 clients joined."),
    (11, "gloo_mesh_incomplete", "RuntimeError: Gloo connectFullMesh failed with [/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:144] no error"),
    (11, "peer_exited", "RuntimeError: [/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:547] Connection closed by peer [10.77.1.14]:40613"),
    (11, "gloo_mesh_incomplete", "RuntimeError: [/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:789] timed out connecting: SO_ERROR: Connection refused, remote=[10.77.1.14]:33215"),
    (12, "port_in_use", "OSError: [Errno 98] Address already in use"),
    (12, "port_in_use", "torch.distributed.DistNetworkError: The server socket has failed to listen on any local network address. port: 29501, useIpv6: false, code: -98, name: EADDRINUSE, message: address already in use"),
    (13, "rdma_error", "NCCL WARN Call to ibv_reg_mr_iova2 failed with error Cannot allocate memory"),
    (14, "rdma_error", "NCCL WARN Call to ibv_modify_qp failed with 110 Connection timed out, on dev rocep1s0f0:1, curr state INIT, next state RTR"),
    (14, "rdma_error", "NCCL WARN Call to ibv_modify_qp failed with 61 No data available, on dev rocep1s0f0:1"),
    (15, "rdma_error", "torch.distributed.DistBackendError: NCCL error in: NCCLUtils.hpp:268, unhandled system error (run with NCCL_DEBUG=INFO for details), NCCL version 2.30.7"),
    (15, "cause_not_in_log", "ncclUnhandledCudaError: Call to CUDA function failed."),
    (15, "peer_exited", "ncclRemoteError: A call failed possibly due to a network error or a remote process exiting prematurely."),
    (16, "rdma_error", "NCCL INFO NET/Socket : Using [0]enP7s7:192.168.1.4<0>"),
    (16, "rdma_error", "NCCL INFO Using network Socket"),
    (18, "cause_not_in_log", "WorkerProc hit an exception."),
    (18, "cause_not_in_log", "WorkerProc failed to start."),
    (18, "cause_not_in_log", "Exception: WorkerProc initialization failed due to an exception in a background process. See stack trace for root cause."),
    (18, "cause_not_in_log", "EngineCore failed to start."),
    (18, "cause_not_in_log", "EngineCore encountered a fatal error."),
    (18, "cause_not_in_log", "RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}"),
    (18, "cause_not_in_log", "vllm.v1.engine.exceptions.EngineDeadError: EngineCore encountered an issue. See stack trace (above) for the root cause."),
    (19, "killed_from_outside", "Worker proc VllmWorker-1 died unexpectedly (exit code: -9), shutting down executor."),
    (20, "collective_hang", "TimeoutError: RPC call to sample_tokens timed out."),
    (20, "collective_hang", "TimeoutError: RPC call to execute_model timed out."),
    (21, "head_gone", "[c10d] recvValue failed on SocketImpl(fd=46, addr=[::]:3693, remote=[::ffff:10.77.1.11]:29501): Broken pipe"),
    (21, "head_gone", "[c10d] sendBytes failed on SocketImpl(fd=46, addr=[::]:3693, remote=[::ffff:10.77.1.11]:29501): Broken pipe"),
    (21, "head_gone", 'Failed to check the "should dump" flag on TCPStore, (maybe TCPStore server has shut down too early), with error: Broken pipe'),
    (22, "config_rejected", "pydantic_core._pydantic_core.ValidationError: 1 validation error for VllmConfig"),
    (22, "unrecognized_argument", "vllm: error: unrecognized arguments: --no-such-flag 1"),
    (22, "config_rejected", "vllm serve: error: argument --max-model-len: invalid human_readable_int value: 'lots'"),
    (22, "config_rejected", "ValueError: num_speculative_tokens:5 must be divisible by n_predict=3"),
    (23, "hub_offline", "huggingface_hub.errors.LocalEntryNotFoundError: Cannot find an appropriate cached snapshot folder for the specified revision on the local disk and outgoing traffic has been disabled."),
    (23, "hub_offline", "huggingface_hub.errors.OfflineModeIsEnabled: Cannot reach https://huggingface.co/api/models/x: offline mode is enabled."),
    (23, "model_not_found", "huggingface_hub.errors.HFValidationError: Repo id must be in the form 'repo_name' or 'namespace/repo_name': '/models/x'."),
    (24, "stale_mount", "OSError: [Errno 116] Stale file handle: '/models/v4/model-00012-of-00048.safetensors'"),
    (24, "stale_mount", "Fatal Python error: Bus error"),
    (24, "damaged_weights", "safetensors_rust.SafetensorError: Error while deserializing header: incomplete metadata, file not fully covered"),
    (25, "image_missing", "Unable to find image 'engine:7' locally"),
    (25, "image_missing", "docker: Error response from daemon: No such image: engine:7"),
    (25, "image_missing", "docker: Error response from daemon: pull access denied for engine, repository does not exist"),
    (26, "no_gpu_runtime", 'docker: Error response from daemon: could not select device driver "nvidia" with capabilities: [[gpu]].'),
    (27, "docker_permission", "permission denied while trying to connect to the docker API at unix:///var/run/docker.sock"),
    (28, "name_in_use", 'docker: Error response from daemon: Conflict. The container name "/x-r3" is already in use by container "9d8e".'),
    (29, "disk_full", "write /var/lib/docker/overlay2/x: no space left on device"),
    (30, "gpu_arch_mismatch", "torch.AcceleratorError: CUDA error: no kernel image is available for execution on the device"),
    (30, "gpu_arch_mismatch", "RuntimeError: No supported CUDA architectures found for major versions [10]."),
    (30, "gpu_arch_mismatch", "FileNotFoundError: sm121_fp4_gemm_common.cuh"),
    (31, "mount_source_missing", "not a directory: unknown: Are you trying to mount a directory onto a file (or vice-versa)? Check if the specified host path exists"),
    (38, "guard_tripped", "2026-09-26T03:11:09Z TRIPPED floor=4096MiB available=3711MiB pid=2211"),
    (40, "host_oom", 'earlyoom[812]: sending SIGTERM to process 30123 uid 1000 "VLLM::Worker": oom_score 1203, VmRSS 98123 MiB'),
    (42, "disk_full", "sudo: a password is required"),
]  # fmt: skip
# Rows that no single line shows: other tests hold them.
ELSEWHERE = {
    17: "test_stall: a hung collective", 32: "test_causes_states: a node that does not answer",
    33: "test_causes_states: a rebooted node", 34: "row 5 with /proc/buddyinfo, a preflight check",
    35: "test_causes_logs: requests run and no token comes", 36: "test_causes_states: a clock that is latched", 37: "garbage below",
    39: "test_causes_states: the head died first", 41: "test_causes_logs: the wedge fixture",
}  # fmt: skip


def test_every_row_of_the_reference_is_held_somewhere() -> None:
    assert {row for row, _, _ in ROWS} | set(ELSEWHERE) == set(range(1, 43))


@pytest.mark.parametrize(("row", "cls", "line"), ROWS, ids=lambda v: str(v)[:40])
def test_rows(row: int, cls: str, line: str) -> None:
    found = matches(line)
    assert found, row
    assert found[0][0].cls == cls
    words = filled(found[0][0].sentence, found[0][1])
    assert words and "{" not in words


def test_classes_that_no_line_shows_have_words_too() -> None:
    for cls in (*UNSEEN, "gpu_oom", "host_oom", "image_missing", "shm_full", "guard_tripped"):
        sentence, action = advice(cls)
        assert len(sentence) > 10 and len(action) > 10


VOCABULARY = {
    "gpu_memory_gate",
    "gpu_oom",
    "no_kv_cache_memory",
    "kv_cache_too_small",
    "host_oom",
    "host_oom_during_jit",
    "guard_tripped",
    "host_wedged",
    "host_rebooted",
    "jit_build_failed",
    "compiler_failed",
    "jit_compile_slow",
    "gpu_arch_mismatch",
    "unsupported_backend_combo",
    "kernel_runtime_failure",
    "kernel_module_load_failed",
    "illegal_memory_access",
    "cudagraph_capture_failed",
    "driver_too_old",
    "model_code_error",
    "checkpoint_mismatch",
    "damaged_weights",
    "model_not_found",
    "hub_offline",
    "tokenizer_load_error",
    "python_env_broken",
    "config_rejected",
    "unrecognized_argument",
    "rendezvous_timeout",
    "rank_missing",
    "rank_args_differ",
    "master_addr_wrong",
    "stale_rendezvous",
    "node_unreachable",
    "gloo_mesh_incomplete",
    "peer_exited",
    "head_gone",
    "nccl_wrong_interface",
    "nccl_collective_timeout",
    "collective_hang",
    "rdma_error",
    "too_many_open_files",
    "ray_resources_missing",
    "port_in_use",
    "image_missing",
    "no_gpu_runtime",
    "docker_permission",
    "name_in_use",
    "mount_source_missing",
    "stale_mount",
    "disk_full",
    "shm_full",
    "ipc_removed",
    "killed_from_outside",
    "clock_latch",
    "garbage_output",
    "serving_hang",
    "engine_dead_serving",
    "cause_not_in_log",
    "ready_timeout",
}
ADDED = {"container_refused", "unknown_exception", "memory_fragmented"}


def test_classes_are_of_the_vocabulary() -> None:
    used = {s.cls for s in SIGNATURES if s.kind is not Kind.BENIGN} | set(UNSEEN)
    assert used <= VOCABULARY | ADDED


def test_every_key_leads_to_its_signature() -> None:
    for signature in SIGNATURES:
        for key in signature.keys:
            assert signature in _INDEX[_rarest(key)], key


def test_signatures_say_something() -> None:
    for signature in SIGNATURES:
        if signature.kind is not Kind.BENIGN:
            assert signature.sentence.endswith((".", ")")), signature
            assert signature.action, signature
            assert "?" not in filled(
                signature.sentence, {name.rstrip("0123456789"): "x" for name in signature.pattern.groupindex}
            )


@pytest.mark.parametrize("name", [n for n in LOGS if "fail" not in n])
def test_no_line_of_a_good_boot_names_a_cause(name: str) -> None:
    for record in decode(data(name)):
        if "async_llm" in (record.source or "") or "[shutdown]" in record.text:
            continue
        for signature, _ in matches(record.text):
            assert signature.kind in (Kind.BENIGN, Kind.HINT, Kind.VICTIM), (record.text, signature.cls)


@pytest.mark.parametrize("filler", ["a", " ", "(", "[1] ", "NCCL WARN ", "error: ", "0.1 ", "x" * 50 + " "])
def test_patterns_stay_cheap_on_hostile_lines(filler: str) -> None:
    keys = sorted({key for s in SIGNATURES for key in s.keys})
    line = (filler * 4000)[:4000]
    begin = time.perf_counter()
    for key in keys:
        matches(key + line)
        matches(line + key)
    assert (time.perf_counter() - begin) / (2 * len(keys)) < 0.01


def test_braces_of_a_log_stay_text() -> None:
    signature = next(s for s in SIGNATURES if s.cls == "unrecognized_argument")
    found = signature.pattern.search("error: unrecognized arguments: --x={0.__class__}")
    assert filled(signature.sentence, said(found)).endswith("--x={0.__class__}.")


KEYS = st.sampled_from(sorted({key for s in SIGNATURES for key in s.keys}))
LINES = st.sampled_from([line for _, _, line in ROWS] + [e.data.decode() for e in excerpts()])
HEADS = st.sampled_from(
    ["", "2026-09-18T23:06:14.9Z ", "(Worker_TP3 pid=9) ERROR 09-18 23:06:14 [a.py:1] ", "[rank0]: ", "x-1  | ", "\r", "\x1b[31m",
     "[2026-01-30 18:11:14 TP0] ", "Traceback (most recent call last):\n", '  File "a", line 1, in b\n',
     "During handling of the above exception, another exception occurred:\n"]
)  # fmt: skip


@given(
    st.lists(
        st.one_of(st.tuples(HEADS, st.one_of(KEYS, LINES, st.text(max_size=60))), st.binary(max_size=80)), max_size=25
    ),
    st.booleans(),
)
@settings(max_examples=200, deadline=None)
def test_nothing_raises_whatever_the_log(parts: list[tuple[str, str] | bytes], world: bool) -> None:
    raw = b"\n".join(p if isinstance(p, bytes) else "".join(p).encode("utf-8", "surrogatepass") for p in parts)
    logs = (
        [("rank0.log", 0, lambda: [raw]), ("b", None, lambda: [raw[::-1], raw])]
        if world
        else [("a", None, lambda: [raw])]
    )
    found = diagnose(logs)
    if found.cause is not None and found.cause.line is not None and not world:
        assert 1 <= found.cause.line <= raw.count(b"\n") + 1


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=12) | st.sampled_from(["running", "exited", "2026-11-30T01:50:00Z", "0001-01-01T00:00:00Z", "9999-99-99T99:99:99Z"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(
        st.sampled_from(["ranks", "0", "1", "state", "Status", "ExitCode", "launch", "rc", "output", "at", "health", "request", "reachable",
                         "container", "node", "world_size", "observed_at", "FinishedAt", "Error", "kernel", "addresses", "trouble"]),
        inner, max_size=5),
    max_leaves=20,
)  # fmt: skip


@given(
    st.dictionaries(
        st.sampled_from(["ranks", "health", "request", "observed_at", "launched_at", "world_size", "stop_at"]), JSON
    )
)
@settings(max_examples=200, deadline=None)
def test_nothing_raises_whatever_the_states(states: dict[str, object]) -> None:
    diagnose([("rank1.log", 1, lambda: [b"ncclRemoteError: A call failed\n"])], states)


def test_memory_stays_bounded() -> None:
    collector = CauseCollector(0)
    lines = "".join(f"(Worker_TP0 pid=9) ERROR 09-18 23:06:14 [a.py:1] {text}\n" for _, _, text in ROWS)
    lines += "Traceback (most recent call last):\nKeyError: 'x'\n"
    for _ in range(200):
        collector.feed(decode(lines.encode()))
    trail = collector.trail()
    assert len(trail.hits) <= 400 and len(trail.traces) <= 64 and len(trail.tail) <= 8
