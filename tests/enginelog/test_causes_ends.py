"""How a log ends: by hand, in the middle of words, with an error that nobody knows; and what only looks like an end."""
# ruff: noqa: E501 lines of logs are kept whole, as they are printed

from __future__ import annotations

from collections.abc import Mapping

from console.enginelog.causes_model import Diagnosis, Verdict
from console.enginelog.diagnose import diagnose
from tests.enginelog.logs import data

SERVES = data("composed-success.log").decode()
CTRL_C = (
    "(EngineCore pid=310) Process EngineCore:\n"
    "(EngineCore pid=310) Traceback (most recent call last):\n"
    '(EngineCore pid=310)   File "/vllm/v1/engine/core.py", line 700, in run_engine_core\n'
    "(EngineCore pid=310) KeyboardInterrupt\n"
)
AFTER = "(EngineCore pid=310) ConnectionResetError: [Errno 104] Connection reset by peer\n"


def of(text: str, rank: int | None = None, states: Mapping[str, object] | None = None) -> Diagnosis:
    return diagnose([("vllm.log", rank, lambda: [text.encode()])], states)


def test_ctrl_c_on_an_engine_that_serves_is_a_stop() -> None:
    for rank in (None, 0):
        found = of(SERVES + CTRL_C + AFTER, rank)
        assert (found.verdict, found.cause) == (Verdict.HEALTHY, None)


def test_ctrl_c_before_it_serves_is_a_cause() -> None:
    found = of(CTRL_C, 0)
    assert found.cause is not None and found.cause.cls == "killed_from_outside"


def test_ctrl_c_on_one_worker_of_several_is_a_cause() -> None:
    worker = CTRL_C.replace("EngineCore pid", "Worker_TP3 pid")
    logs = [("rank0.log", 0, lambda: [SERVES.encode()]), ("rank3.log", 3, lambda: [worker.encode()])]
    cause = diagnose(logs).cause
    assert cause is not None and (cause.cls, cause.rank) == ("killed_from_outside", 3)


def test_an_error_before_ctrl_c_is_no_stop() -> None:
    failed = (
        "(EngineCore pid=310) ERROR 09-18 23:30:00 [core.py:1] EngineCore encountered a fatal error.\n"
        "(EngineCore pid=310) ERROR 09-18 23:30:00 [core.py:1] Traceback (most recent call last):\n"
        "(EngineCore pid=310) ERROR 09-18 23:30:00 [core.py:1] torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.\n"
    )
    cause = of(SERVES + failed + CTRL_C, 0).cause
    assert cause is not None and cause.cls == "gpu_oom"


def test_the_server_goes_down_at_a_stop_before_its_parts_complain() -> None:
    raw = (
        SERVES + "(APIServer pid=1) INFO 08-19 13:20:01 [launcher.py:123] Shutting down FastAPI HTTP server.\n" + AFTER
    )
    assert of(raw, 0).verdict is Verdict.HEALTHY


def test_the_last_words_of_a_log_are_its_cause_where_nothing_else_is() -> None:
    cause = of("INFO 08-19 13:12:30 [a.py:1] x\nRuntimeError: nobody knows this\n\nsome hint\n").cause
    assert cause is not None and (cause.cls, cause.line) == ("unknown_exception", 2)
    assert "The log ends with an error" in cause.sentence


def test_an_error_that_was_gone_past_is_not() -> None:
    gone = "RuntimeError: nobody knows this\n" + "INFO 08-19 13:12:30 [a.py:1] it goes on\n" * 9
    assert of(gone) == Diagnosis(Verdict.INCOMPLETE)
    # Nor one that the container outlived, or that came while it served.
    running = {"ranks": {"0": {"state": {"Status": "running", "Running": True}}}}
    assert of("RuntimeError: nobody knows this\n", 0, running).cause is None
    assert of(SERVES + "RuntimeError: nobody knows this\n", 0).cause is None


def test_a_log_that_ends_within_a_traceback_failed_and_does_not_say_why() -> None:
    cut = "".join(CTRL_C.splitlines(keepends=True)[:3])
    assert of(cut) == Diagnosis(Verdict.FAILED)
    assert of(SERVES + cut, 0).verdict is Verdict.HEALTHY
    assert of(cut + "(EngineCore pid=310) INFO 08-19 13:12:30 [a.py:1] it goes on\n").verdict is Verdict.INCOMPLETE


def test_a_traceback_that_lost_its_spaces_is_read() -> None:
    lines = [
        "[2025-02-09 21:23:00 TP2] Scheduler hit an exception: Traceback (most recent call last):",
        'File "/sglang/srt/managers/scheduler.py", line 1787, in run_scheduler_process',
        "scheduler = Scheduler(server_args, port_args, gpu_id, tp_rank, dp_rank)",
        'File "/sglang/srt/model_loader/loader.py", line 1426, in load_weights',
        "param_data = state_dict[key].data",
        "IndexError: out of range",
    ]
    cause = of("\n".join(lines) + "\n").cause
    assert cause is not None and (cause.cls, cause.rank, cause.line) == ("checkpoint_mismatch", 2, 6)


def test_an_image_that_is_pulled_is_not_missing() -> None:
    missing = "Unable to find image 'vllm/vllm-openai:latest' locally\n"
    pulled = "latest: Pulling from vllm/vllm-openai\nStatus: Downloaded newer image for vllm/vllm-openai:latest\n"
    assert of(missing + pulled) == Diagnosis(Verdict.INCOMPLETE)
    refused = "docker: Error response from daemon: pull access denied for vllm/vllm-openai, repository does not exist\n"
    cause = of(missing + refused).cause
    assert cause is not None and cause.cls == "image_missing"


def test_a_health_check_that_failed_once_is_over() -> None:
    up = "[2026-08-27 10:12:31] The server is fired up and ready to roll!\n"
    late = "[2026-08-27 11:12:31] Health check failed. Server couldn't get a response from detokenizer for last 20 seconds. tic start time: 11:12:11. last_heartbeat time: 11:11:50\n"
    batch = "[2026-08-27 11:13:0{n}] Decode batch. #running-req: 1, #token: 2401, gen throughput (token/s): 20.61\n"
    assert of(up + late).verdict is Verdict.HUNG
    assert of(up + late + "".join(batch.format(n=n) for n in range(9))).verdict is Verdict.HEALTHY


def test_a_number_that_is_none_is_no_status() -> None:
    for value in (float("inf"), float("nan"), -float("inf")):
        assert of(SERVES, 0, {"health": value, "request": value}).verdict in Verdict
