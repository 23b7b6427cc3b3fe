"""What logs do not say: states, launches, nodes and answers as evidence, over eight ranks."""
# ruff: noqa: E501 lines of logs are kept whole, as they are printed

from __future__ import annotations

import pytest

from console.enginelog.causes_model import Verdict
from tests.enginelog.evidence_of import ENGINE_DEAD, Boot, until, worker

PEER = (
    "(Worker_TP{0} pid=17) ERROR 11-30 {{clock}} [multiproc_executor.py:960] WorkerProc hit an exception.",
    "(Worker_TP{0} pid=17) ERROR 11-30 {{clock}} [multiproc_executor.py:960] Traceback (most recent call last):",
    '(Worker_TP{0} pid=17) ERROR 11-30 {{clock}} [multiproc_executor.py:960]   File "torch/distributed/distributed_c10d.py", '
    "line 3116, in all_reduce",
    "(Worker_TP{0} pid=17) ERROR 11-30 {{clock}} [multiproc_executor.py:960] RuntimeError: "
    "[/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:547] Connection closed by peer [10.77.0.{1}]:40613",
)


def peer(rank: int, accused: int) -> list[str]:
    return [line.format(rank, 11 + accused) for line in PEER]


def test_a_healthy_boot() -> None:
    boot = Boot()
    boot.more = {"health": {"status": 200, "seconds": 0.01}, "request": {"status": 200, "seconds": 0.4}}
    found = boot.diagnosis()
    assert (found.verdict, found.cause, found.others) == (Verdict.HEALTHY, None, ())


def test_a_boot_that_goes_on_is_no_failure() -> None:
    for boot in (Boot().loading(), Boot().waiting()):
        found = boot.diagnosis()
        assert (found.verdict, found.cause) == (Verdict.INCOMPLETE, None)


@pytest.mark.parametrize(
    ("rc", "output", "cls"),
    [
        (125, "Unable to find image 'engine:7' locally\ndocker: Error response from daemon: pull access denied for engine, "
              "repository does not exist or may require 'docker login'.", "image_missing"),
        (125, "docker: Error response from daemon: No such image: engine:7", "image_missing"),
        (125, 'docker: Error response from daemon: could not select device driver "nvidia" with capabilities: [[gpu]]',
         "no_gpu_runtime"),
        (1, "permission denied while trying to connect to the Docker daemon socket at unix:///var/run/docker.sock",
         "docker_permission"),
        (125, 'docker: Error response from daemon: Conflict. The container name "/boot-r4" is already in use by container '
              '"9d8e". You have to remove (or rename) that container.', "name_in_use"),
        (125, 'docker: Error response from daemon: invalid mount config for type "bind": bind source path does not exist: '
              "/models/v4.", "mount_source_missing"),
        (125, "docker: Error response from daemon: error mounting: not a directory: unknown: Are you trying to mount a "
              "directory onto a file (or vice-versa)?", "mount_source_missing"),
        (125, "docker: Error response from daemon: failed to set up container networking: Bind for 0.0.0.0:8000 failed: port "
              "is already allocated", "port_in_use"),
        (125, "docker: Error response from daemon: failed to create task: error setting rlimit type 7: operation not "
              "permitted: unknown", "container_refused"),
        (1, "write /var/lib/docker/tmp/x: no space left on device", "disk_full"),
        (125, "Cannot connect to the Docker daemon at unix:///var/run/docker.sock. Is the docker daemon running?",
         "docker_permission"),
        (127, "sh: 1: something nobody has seen before", "container_refused"),
    ],
)  # fmt: skip
def test_a_container_that_never_came(rc: int, output: str, cls: str) -> None:
    found = Boot().waiting().no_container(4, rc, output).diagnosis()
    assert found.verdict is Verdict.FAILED and found.cause is not None
    assert (found.cause.cls, found.cause.rank, found.cause.node) == (cls, 4, "dgx5")
    assert (found.cause.file, found.cause.line) == (None, None)
    assert found.cause.evidence and found.cause.action


def test_the_launch_that_failed_comes_before_the_timeout_that_followed() -> None:
    boot = Boot().waiting().no_container(4, 125, "docker: Error response from daemon: No such image: engine:7")
    boot.add(
        0, "02:01:50",
        "(Worker pid=30) ERROR 11-30 {clock} [multiproc_executor.py:944] WorkerProc failed to start.",
        "(Worker pid=30) ERROR 11-30 {clock} [multiproc_executor.py:944] Traceback (most recent call last):",
        "(Worker pid=30) ERROR 11-30 {clock} [multiproc_executor.py:944] torch.distributed.DistStoreError: Timed out after "
        "601 seconds waiting for clients. 7/8 clients joined.",
    ).end(0, 1, "02:01:55")  # fmt: skip
    cause = boot.diagnosis().cause
    assert cause is not None
    assert (cause.cls, cause.rank, cause.victims) == ("image_missing", 4, (0,))


def test_a_rank_that_never_came_is_named() -> None:
    boot = Boot().waiting()
    boot.logs.pop(6)
    boot.ranks[6].update(container=None, state=None, launch=None)
    boot.add(
        0, "02:01:50",
        "(Worker pid=30) ERROR 11-30 {clock} [multiproc_executor.py:944] Traceback (most recent call last):",
        "(Worker pid=30) ERROR 11-30 {clock} [multiproc_executor.py:944] torch.distributed.DistStoreError: Timed out after "
        "601 seconds waiting for clients. 7/8 clients joined.",
    )  # fmt: skip
    cause = boot.diagnosis().cause
    assert cause is not None
    assert (cause.cls, cause.rank, cause.node, cause.file) == ("rank_missing", 6, "dgx7", "rank0.log")
    assert "rank 6 (dgx7)" in cause.sentence.lower()


@pytest.mark.parametrize("ended", [False, True])
def test_a_rank_that_never_spoke_is_named_from_a_folder_that_holds_no_log_of_it(ended: bool) -> None:
    """As after a stop: its container is known, and an empty log is kept by nobody."""
    boot = Boot().waiting()
    boot.logs.pop(6)
    boot.more["deadline_passed"] = True
    if ended:  # by a stop, after the deadline
        boot.more["stop_at"] = "2026-11-30T02:39:50Z"
        for rank in range(8):
            boot.end(rank, 137, "02:40:00")
    cause = boot.diagnosis().cause
    assert cause is not None
    assert (cause.cls, cause.rank, cause.node) == ("rank_missing", 6, "dgx7")


@pytest.mark.parametrize(
    ("trouble", "cls"),
    [
        ("No route to host", "node_unreachable"),
        ("refused", "node_unreachable"),
        ("Connection timed out during banner exchange", "host_wedged"),
        ("silent: accepts and says nothing", "host_wedged"),
    ],
)
def test_a_node_that_does_not_answer(trouble: str, cls: str) -> None:
    boot = Boot().loading()
    boot.ranks[6].update(reachable=False, trouble=trouble, container=None, state=None)
    found = boot.diagnosis()
    assert found.verdict is Verdict.FAILED and found.cause is not None
    assert (found.cause.cls, found.cause.rank, found.cause.node, found.cause.line) == (cls, 6, "dgx7", None)


def test_a_node_that_does_not_answer_while_the_engine_serves_is_no_failure() -> None:
    boot = Boot()
    boot.ranks[6].update(reachable=False, trouble="refused", container=None, state=None)
    boot.more = {"health": 200, "request": {"ok": True, "seconds": 0.3}}
    found = boot.diagnosis()
    assert (found.verdict, found.cause) == (Verdict.HEALTHY, None)
    assert [c.cls for c in found.others] == ["node_unreachable"]


def test_killed_from_outside_without_a_line() -> None:
    boot = Boot().loading().end(4, 137, "01:53:00")
    for rank in (0, 3, 5):
        boot.add(rank, "01:53:01", *peer(rank, 4))
        boot.end(rank, 1, "01:53:04")
    found = boot.diagnosis()
    assert found.cause is not None
    assert (found.verdict, found.cause.cls, found.cause.rank) == (Verdict.FAILED, "killed_from_outside", 4)
    assert found.cause.victims == (0, 3, 5)
    assert found.cause.line is None


def test_a_killed_worker_in_a_container_that_stays_up() -> None:
    boot = Boot().loading()
    for rank in (0, 3, 5):
        boot.add(rank, "01:53:01", *peer(rank, 4))
    cause = boot.diagnosis().cause
    assert cause is not None
    assert (cause.cls, cause.rank, cause.node) == ("killed_from_outside", 4, "dgx5")


def test_killed_with_kernel_lines_is_the_oom_killer() -> None:
    boot = Boot().loading().end(4, 137, "01:53:00")
    boot.ranks[4]["kernel"] = [
        "[ 8123.1] Out of memory: Killed process 30123 (VLLM::Worker) total-vm:181234567kB, anon-rss:98234567kB"
    ]
    cause = boot.diagnosis().cause
    assert cause is not None
    assert (cause.cls, cause.rank) == ("host_oom", 4)
    assert "VLLM::Worker" in cause.sentence


def test_killed_by_docker_for_memory() -> None:
    cause = Boot().loading().end(4, 137, "01:53:00", oom=True).diagnosis().cause
    assert cause is not None
    assert (cause.cls, cause.rank) == ("host_oom", 4)


def test_killed_as_memory_ran_out() -> None:
    boot = Boot().end(4, 137, "01:53:00")
    boot.logs[0] = until(boot.logs[0], b"Application startup complete")
    boot.ranks[4]["available_low_bytes"] = 300 << 20
    boot.ranks[4]["available_low_at"] = "2026-11-30T01:52:58Z"
    boot.ranks[4]["memory_fell_bytes_s"] = 1.25 * 2**30
    cause = boot.diagnosis().cause
    assert cause is not None
    assert (cause.cls, cause.rank) == ("host_oom_during_jit", 4)
    assert cause.evidence[-1] == (
        f"telemetry: the lowest on {cause.node} was 0.29 GiB available at 2026-11-30 01:52:58 UTC, "
        "after it fell 1.25 GiB/s"
    )


@pytest.mark.parametrize(("low_gib", "fell_gib", "told"), [(4.0, 6.2, True), (4.0, 0.2, False), (20.0, 18.0, False)])
def test_killed_in_a_fall_that_no_sample_shows_the_end_of(low_gib: float, fell_gib: float, told: bool) -> None:
    boot = Boot().end(4, 137, "01:53:00")
    boot.logs[0] = until(boot.logs[0], b"Application startup complete")
    low = {"available_low_bytes": int(low_gib * 2**30), "memory_fell_bytes_s": fell_gib * 2**30}
    boot.ranks[4] |= {**low, "available_low_at": "2026-11-30T01:52:59.5Z"}
    cause = boot.diagnosis().cause
    assert cause is not None
    assert (cause.cls == "host_oom_during_jit") is told
    assert (f"after it fell {fell_gib:.2f} GiB/s" in cause.evidence[-1]) is told


def test_a_moment_beyond_all_calendars_is_none() -> None:
    boot = Boot().end(4, 137, "01:53:00")
    boot.ranks[4] |= {"available_low_bytes": 0, "available_low_at": 9e11}
    cause = boot.diagnosis().cause
    assert cause is not None
    assert cause.evidence[-1].endswith("was 0.00 GiB available")


def test_a_guard_tripped() -> None:
    boot = Boot().loading().end(2, 137, "01:53:00")
    boot.ranks[2]["guard"] = "2026-11-30T01:53:00Z TRIPPED floor=4096MiB available=3711MiB"
    cause = boot.diagnosis().cause
    assert cause is not None
    assert (cause.cls, cause.rank) == ("guard_tripped", 2)


def test_a_paused_container() -> None:
    boot = Boot().loading()
    boot.ranks[3]["state"] = {**boot.ranks[3]["state"], "Status": "paused", "Paused": True}
    boot.more = {"health": {"error": "connection refused"}}
    found = boot.diagnosis()
    assert found.cause is not None
    assert (found.verdict, found.cause.cls, found.cause.rank) == (Verdict.HUNG, "collective_hang", 3)


def test_up_and_no_answer() -> None:
    boot = Boot()
    boot.more = {"health": {"status": 200, "seconds": 0.01}, "request": {"error": "timed out", "seconds": 90}}
    found = boot.diagnosis()
    assert found.cause is not None
    assert (found.verdict, found.cause.cls, found.cause.rank) == (Verdict.HUNG, "serving_hang", 0)


def test_a_worker_killed_after_ready_shows_only_in_its_state() -> None:
    boot = Boot().end(5, 137, "02:00:00")
    boot.more = {"health": {"status": 200}, "request": {"error": "timed out", "seconds": 90}}
    found = boot.diagnosis()
    assert found.cause is not None
    assert (found.verdict, found.cause.cls, found.cause.rank) == (Verdict.FAILED, "killed_from_outside", 5)


def test_a_worker_killed_after_ready_and_a_head_that_ends_with_zero() -> None:
    boot = Boot().add(
        5, "02:00:00",
        "(MainProcess pid=1) ERROR 11-30 {clock} [multiproc_executor.py:320] Worker proc VllmWorker-5 died unexpectedly "
        "(exit code: -9), shutting down executor.",
    ).end(5, 1, "02:00:01")  # fmt: skip
    boot.add(0, "02:03:00", *ENGINE_DEAD).end(0, 0, "02:03:05")
    found = boot.diagnosis()
    assert found.cause is not None
    assert (found.verdict, found.cause.cls, found.cause.rank) == (Verdict.FAILED, "killed_from_outside", 5)
    assert found.cause.file == "rank5.log"
    assert found.cause.line == boot.logs[5].count(b"\n")
    assert found.cause.victims == (0,)


def test_the_head_died_first_and_workers_ended_with_zero() -> None:
    boot = Boot().loading().end(0, 137, "01:53:00")
    for rank in range(1, 8):
        boot.end(rank, 0, "01:53:20")
        boot.add(
            rank, "01:53:10",
            "[rank{r}]:[W1130 {clock}.5 TCPStore.cpp:125] [c10d] recvValue failed on SocketImpl(fd=46, addr=[::]:3693, "
            "remote=[::ffff:10.77.0.11]:29501): Failed to recv, got 0 bytes. Connection was likely closed.".replace("{r}", str(rank)),
        )  # fmt: skip
    cause = boot.diagnosis().cause
    assert cause is not None
    assert (cause.cls, cause.rank, cause.victims) == ("killed_from_outside", 0, (1, 2, 3, 4, 5, 6, 7))


def test_a_stop_by_the_operator_is_no_failure() -> None:
    boot = Boot()
    boot.add(
        0, "02:00:00",
        "(APIServer pid=1) INFO 11-30 {clock} [launcher.py:254] [shutdown] API server: shutdown triggered",
    ).add(0, "02:00:01", *ENGINE_DEAD).end(0, 0, "02:00:05")  # fmt: skip
    for rank in range(1, 8):
        boot.add(rank, "02:00:02", *peer(rank, 0)).end(rank, 137, "02:00:35")
    found = boot.diagnosis()
    assert (found.verdict, found.cause) == (Verdict.HEALTHY, None)


def test_a_stop_by_the_console_is_no_failure() -> None:
    boot = Boot().loading()
    for rank in range(8):
        boot.end(rank, 137, "02:00:35")
    boot.more = {"stopped_at": "2026-11-30T02:00:00Z"}
    found = boot.diagnosis()
    assert (found.verdict, found.cause) == (Verdict.INCOMPLETE, None)


def test_one_rank_with_another_flag_fails_first() -> None:
    boot = Boot().waiting()
    boot.logs[4] = (
        b"2026-11-30T01:50:20.5Z usage: vllm [-h] [-v]\n2026-11-30T01:50:20.6Z vllm: error: unrecognized arguments: --x\n"
    )
    boot.end(4, 2, "01:50:21")
    cause = boot.diagnosis().cause
    assert cause is not None
    assert (cause.cls, cause.rank, cause.line, cause.file) == ("unrecognized_argument", 4, 2, "rank4.log")


def test_a_rank_that_looks_for_the_head_elsewhere() -> None:
    boot = Boot().waiting()
    boot.logs[4] = boot.logs[4].replace(b"10.77.0.11:29501", b"10.77.0.99:29501")
    boot.add(
        0, "02:01:50",
        "(Worker pid=30) ERROR 11-30 {clock} [multiproc_executor.py:944] Traceback (most recent call last):",
        "(Worker pid=30) ERROR 11-30 {clock} [multiproc_executor.py:944] torch.distributed.DistStoreError: Timed out after "
        "601 seconds waiting for clients. 7/8 clients joined.",
    )  # fmt: skip
    cause = boot.diagnosis().cause
    assert cause is not None
    assert (cause.cls, cause.rank, cause.node) == ("master_addr_wrong", 4, "dgx5")


def test_two_ranks_with_one_number_hang() -> None:
    boot = Boot().waiting()
    boot.logs[4] = until(worker(3), b"CPU SHM communicator")
    boot.add(
        0, "02:01:50",
        "(Worker pid=30) ERROR 11-30 {clock} [multiproc_executor.py:944] Traceback (most recent call last):",
        "(Worker pid=30) ERROR 11-30 {clock} [multiproc_executor.py:944] torch.distributed.DistStoreError: Timed out after "
        "601 seconds waiting for clients. 7/8 clients joined.",
    )  # fmt: skip
    cause = boot.diagnosis().cause
    assert cause is not None
    assert (cause.cls, cause.rank) == ("rank_args_differ", 4)


def test_ranks_with_different_lengths_fail_at_the_first_request() -> None:
    boot = Boot().add(0, "02:00:00", *ENGINE_DEAD)
    boot.logs[4] = boot.logs[4].replace(b"Using max model len 512", b"Using max model len 256")
    assert b"max model len 256" in boot.logs[4]
    cause = boot.diagnosis().cause
    assert cause is not None
    assert (cause.cls, cause.rank) == ("rank_args_differ", 4)


def test_a_rank_that_joined_an_older_boot() -> None:
    boot = Boot().waiting()
    boot.logs[2] = worker(2).replace(b"2026-11-30T01:5", b"2026-11-30T01:3")
    boot.add(
        0, "02:01:50",
        "(Worker pid=30) ERROR 11-30 {clock} [multiproc_executor.py:944] torch.distributed.DistStoreError: Timed out after "
        "601 seconds waiting for clients. 7/8 clients joined.",
    )  # fmt: skip
    cause = boot.diagnosis().cause
    assert cause is not None
    assert (cause.cls, cause.rank) == ("stale_rendezvous", 2)


def test_a_peer_of_no_rank_is_an_older_boot() -> None:
    boot = Boot().waiting()
    for rank in (1, 2):
        boot.add(rank, "01:53:01", *peer(rank, 77)).end(rank, 1, "01:53:05")
    cause = boot.diagnosis().cause
    assert cause is not None
    assert cause.cls == "stale_rendezvous"
    assert "10.77.0.88" in cause.sentence


def test_a_full_shm_reads_like_a_full_disk() -> None:
    boot = Boot().waiting()
    boot.logs[3] = b"".join(
        b"2026-11-30T01:50:30.5Z " + line + b"\n"
        for line in (
            b"Traceback (most recent call last):",
            b'  File "/usr/lib/python3.11/multiprocessing/synchronize.py", line 57, in __init__',
            b"    sl = self._semlock = _multiprocessing.SemLock(",
            b"OSError: [Errno 28] No space left on device",
        )
    )
    boot.end(3, 1, "01:50:31")
    cause = boot.diagnosis().cause
    assert cause is not None
    assert (cause.cls, cause.rank, cause.line) == ("shm_full", 3, 4)


def test_a_model_folder_missing_on_one_node() -> None:
    boot = Boot().waiting()
    boot.logs[6] = (
        b"2026-11-30T01:50:30.5Z Traceback (most recent call last):\n"
        b'2026-11-30T01:50:30.5Z   File "huggingface_hub/utils/_validators.py", line 133, in validate_repo_id\n'
        b"2026-11-30T01:50:30.5Z huggingface_hub.errors.HFValidationError: Repo id must be in the form 'repo_name' or "
        b"'namespace/repo_name': '/models/v4'. Use `repo_type` argument if needed.\n"
    )
    boot.end(6, 1, "01:50:31")
    cause = boot.diagnosis().cause
    assert cause is not None
    assert (cause.cls, cause.rank, cause.line) == ("model_not_found", 6, 3)
    assert "/models/v4" in cause.sentence


def test_garbage_is_served() -> None:
    boot = Boot()
    boot.more = {
        "health": 200,
        "request": {"status": 200, "text": "lab lab lab", "garbage": "the answer repeats 'lab'"},
    }
    found = boot.diagnosis()
    assert found.cause is not None
    assert (found.verdict, found.cause.cls, found.cause.rank) == (Verdict.SERVING_BAD, "garbage_output", 0)


def test_a_rebooted_node() -> None:
    boot = Boot().loading()
    boot.ranks[2].update(rebooted=True)
    boot.end(2, 255, "01:52:00")
    cause = boot.diagnosis().cause
    assert cause is not None
    assert (cause.cls, cause.rank) == ("host_rebooted", 2)


def test_nothing_said_and_every_container_ended_with_one() -> None:
    boot = Boot().loading()
    for rank in range(8):
        boot.end(rank, 1, f"01:53:0{rank}")
    found = boot.diagnosis()
    assert found.cause is not None
    assert (found.verdict, found.cause.cls, found.cause.rank) == (Verdict.FAILED, "cause_not_in_log", 0)


def test_a_quiet_rank_is_named_where_all_others_wait() -> None:
    boot = Boot().loading()
    for rank in (0, 1, 2, 3, 4, 6, 7):
        boot.add(
            rank, "01:58:00",
            "[/pytorch/third_party/gloo/gloo/transport/tcp/unbound_buffer.cc:81] Timed out waiting 300000ms for recv "
            "operation to complete",
        )  # fmt: skip
    found = boot.diagnosis()
    assert found.cause is not None
    assert (found.verdict, found.cause.cls, found.cause.rank) == (Verdict.HUNG, "collective_hang", 5)


def test_one_worker_alone_was_asked_to_stop() -> None:
    boot = Boot().loading()
    boot.add(
        4,
        "01:53:00",
        "(MainProcess pid=1) INFO 11-30 {clock} [serve.py:254] [shutdown] Executor: trigger received signal=SIGTERM",
    )
    boot.end(4, 0, "01:53:02")
    for rank in (0, 3):
        boot.add(rank, "01:53:03", *peer(rank, 4)).end(rank, 1, "01:53:05")
    cause = boot.diagnosis().cause
    assert cause is not None
    assert (cause.cls, cause.rank, cause.file) == ("killed_from_outside", 4, "rank4.log")
    assert cause.line == boot.logs[4].count(b"\n")


def test_a_head_killed_while_loading_without_a_line() -> None:
    boot = Boot().loading().end(0, 137, "01:53:00")
    cause = boot.diagnosis().cause
    assert cause is not None
    assert (cause.cls, cause.rank, cause.line) == ("killed_from_outside", 0, None)


def test_the_earliest_error_is_a_victims() -> None:
    boot = Boot().loading()
    boot.add(2, "01:53:00", *peer(2, 5)).end(2, 1, "01:53:02")
    boot.add(
        5, "01:53:01",
        "(Worker_TP5 pid=17) ERROR 11-30 {clock} [multiproc_executor.py:944] WorkerProc failed to start.",
        "(Worker_TP5 pid=17) ERROR 11-30 {clock} [multiproc_executor.py:944] Traceback (most recent call last):",
        "(Worker_TP5 pid=17) ERROR 11-30 {clock} [multiproc_executor.py:944] safetensors_rust.SafetensorError: Error while "
        "deserializing header: incomplete metadata, file not fully covered",
    ).end(5, 1, "01:53:02")  # fmt: skip
    cause = boot.diagnosis().cause
    assert cause is not None
    assert (cause.cls, cause.rank, cause.victims) == ("damaged_weights", 5, (2,))


def test_a_node_cut_off_under_load_with_victims() -> None:
    boot = Boot().loading()
    boot.ranks[6].update(reachable=False, trouble="No route to host", container=None, state=None)
    for rank in (0, 1):
        boot.add(rank, "01:58:00", *peer(rank, 6)).end(rank, 1, "01:58:05")
    found = boot.diagnosis()
    assert found.cause is not None
    assert (found.cause.cls, found.cause.rank, found.cause.victims) == ("node_unreachable", 6, (0, 1))


def test_an_engine_killed_for_memory_by_another_name_of_earlyoom() -> None:
    boot = Boot().loading().end(1, 143, "01:53:00")
    boot.ranks[1]["kernel"] = ['earlyoom[812]: sending SIGTERM to process 30123 uid 0 "VLLM::Worker": oom_score 1203']
    cause = boot.diagnosis().cause
    assert cause is not None
    assert (cause.cls, cause.rank) == ("host_oom", 1)


def test_driver_words_alone_are_no_cause() -> None:
    boot = Boot()
    boot.ranks[1]["kernel"] = ["NVRM: nvCheckOkFailedNoLog: Check failed: Out of memory [NV_ERR_NO_MEMORY] (0x51)"]
    found = boot.diagnosis()
    assert (found.verdict, found.cause) == (Verdict.HEALTHY, None)


def test_the_deadline_passed_and_no_fault_was_seen() -> None:
    boot = Boot().loading()
    boot.more = {"deadline_passed": True}
    found = boot.diagnosis()
    assert found.cause is not None
    assert (found.verdict, found.cause.cls) == (Verdict.FAILED, "ready_timeout")


def test_a_boot_that_stands_still() -> None:
    boot = Boot().loading()
    boot.logs[3] = until(worker(3), b"CPU SHM communicator")
    boot.more = {"stall_signs": ["no rank has said anything for 1300 s (limit 1200 s)", "no rank uses the CPU"]}
    found = boot.diagnosis()
    assert found.cause is not None
    assert (found.verdict, found.cause.cls, found.cause.rank) == (Verdict.HUNG, "collective_hang", 3)


def test_of_ends_that_lie_close_together_the_most_telling_was_first() -> None:
    """Eight engines date the ends of one failure within milliseconds, and not in the order in which they happened."""
    boot = Boot().loading()
    for rank, code, clock in ((3, 0, "01:53:00"), (7, 0, "01:53:00"), (5, 137, "01:53:01"), (0, 1, "01:53:01")):
        boot.end(rank, code, clock)
    cause = boot.diagnosis().cause
    assert cause is not None and (cause.cls, cause.rank) == ("killed_from_outside", 5)


LATCHED = "clock_latched"
NO_MEMORY = "NVRM: nvCheckOkFailedNoLog: Check failed: Out of memory [NV_ERR_NO_MEMORY] (0x00000051)"


def test_a_clock_that_is_latched_is_a_note_and_no_failure() -> None:
    boot = Boot()
    boot.ranks[3][LATCHED] = True
    found = boot.diagnosis()
    assert (found.verdict, found.cause) == (Verdict.HEALTHY, None)
    assert [(c.cls, c.rank, c.node) for c in found.others] == [("clock_latch", 3, "dgx4")]
    assert "power adapter" in found.others[0].action


def test_a_clock_that_is_latched_stands_beside_the_cause_of_a_failure() -> None:
    boot = Boot().loading().end(1, 137, "01:53:00")
    boot.ranks[3][LATCHED] = True
    found = boot.diagnosis()
    assert found.cause is not None and (found.cause.cls, found.cause.rank) == ("killed_from_outside", 1)
    assert ("clock_latch", 3) in [(c.cls, c.rank) for c in found.others]


def test_a_gpu_that_is_busy_at_low_power_is_no_latched_clock() -> None:
    boot = Boot()
    boot.ranks[3]["low_power"] = True
    assert boot.diagnosis().others == ()


def test_fragmented_memory_is_a_note_until_the_driver_refused_and_the_rank_is_gone() -> None:
    boot = Boot().loading()
    boot.ranks[2]["fragmented"] = True
    found = boot.diagnosis()
    assert (found.verdict, found.cause) == (Verdict.INCOMPLETE, None)
    assert [(c.cls, c.rank) for c in found.others] == [("memory_fragmented", 2)]
    boot.ranks[2]["kernel"] = [NO_MEMORY]
    assert boot.diagnosis().cause is None, "healthy boots write it too"
    boot.end(2, 1, "01:53:00")
    cause = boot.diagnosis().cause
    assert cause is not None
    assert (cause.cls, cause.rank, cause.node) == ("memory_fragmented", 2, "dgx3")
    assert "reboot" in cause.action and cause.evidence == (NO_MEMORY,)
