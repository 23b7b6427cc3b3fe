"""Stages and numbers of every captured log, cut anywhere."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from console.base.absent import Absent
from console.enginelog.phrases import MATTERS, PHRASES, Index
from console.enginelog.stages import StageTracker
from console.enginelog.stages_model import CellState, Stage
from tests.enginelog.logs import LOGS, READY, WORKERS, data, decode, states, track

DONE, ACTIVE, PENDING = CellState.DONE, CellState.ACTIVE, CellState.PENDING
SKIPPED, FAILED = CellState.SKIPPED, CellState.FAILED


AFTER_LOADING = ("Model loading took", "Warming up model", "KV cache memory", "for KV cache on node", "KV cache size")


def test_numbers_of_the_composed_success() -> None:
    tracker = track("composed-success.log")
    known = dict(tracker.numbers().as_mapping())
    arguments = known.pop("arguments")
    assert arguments.startswith("{'model_tag': 'deepseek-ai/DeepSeek-V4.1-Flash'")
    assert arguments.endswith("36, 40, 42, 48]}}")
    assert known == {
        "version": "0.28.1rc1.dev388+g8a728663c",
        "architecture": "DeepseekV41ForCausalLM",
        "max_model_len": 524288,
        "world_size": 8,
        "log_rank": 0,
        "node_rank": 0,
        "joined": [0],
        "backend": "nccl",
        "master": "10.77.1.11:29501",
        "engram_mode": "pinned host",
        "engram_gib": 23.6,
        "model_gib": 49.56,
        "load_s": 893.259103,
        "weights_s": [786.29, 91.73],
        "checkpoint_gib": 475.25,
        "checkpoint_fs": "NFS4",
        "checkpoint_ram_gib": 41.02,
        "kv_gib": 9.53,
        "kv_tokens": 1011712,
        "concurrency": 1.93,
        "max_context": 524288,
        "attention_backend": "FLASHINFER_MLA_SPARSE_DSV41",
        "moe_backend": "FLASHINFER_CUTLASS_MXFP4_MXFP8",
        "nccl_version": "2.30.7+cuda13.3",
        "sizing_graphs": [10.0, 1.43],
        "graphs": [4.0, 0.58],
        "warmup_s": 21.37,
        "init_s": 152.0,
        "api_url": "http://0.0.0.0:8000",
        "dtype": "bfloat16",
    }
    assert tracker.ready
    assert tracker.weights_pass == 2
    assert {c.stage: c.line for c in tracker.cells() if c.line is not None} == {
        Stage.ARGUMENTS: 0,
        Stage.RENDEZVOUS: 22,
        Stage.NCCL: 23,
        Stage.MODEL: 28,
        Stage.WEIGHTS: 42,
        Stage.LOADED: 147,
        Stage.PROFILE: 148,
        Stage.KV_CACHE: 155,
        Stage.WARMUP: 158,
        Stage.GRAPHS: 163,
        Stage.HTTP: 174,
    }


def test_a_worker_says_less_and_nothing_is_made_up() -> None:
    tracker = track("composed-success-rank3-docker-t.log")
    numbers = tracker.numbers()
    assert (numbers.model_gib, numbers.weights_s, numbers.kv_gib) == (49.56, (810.15, 60.45), 9.61)
    assert (numbers.transport, numbers.hcas) == ("RoCE", ("rocep1s0f0:1", "roceP2p1s0f0:1"))
    assert numbers.tcp_fallback is False
    assert isinstance(numbers.kv_tokens, Absent)
    assert isinstance(numbers.api_url, Absent)
    assert not tracker.ready
    assert states(tracker)[Stage.HTTP] is SKIPPED
    assert states(tracker)[Stage.GRAPHS] is DONE
    joined = tracker.cells()[Stage.NCCL]
    assert joined.until == pytest.approx(1789772773.2266364)
    assert tracker.durations()[Stage.WEIGHTS] == pytest.approx(875.40, abs=0.01)


def test_the_real_eight_ranks_of_the_cpu_build() -> None:
    head, worker = track("real-cpu-tp8-rank0.log"), track("real-cpu-tp8-rank4.log")
    numbers = head.numbers()
    assert (numbers.version, numbers.world_size, numbers.kv_tokens, numbers.concurrency) == ("0.32.0", 8, 262144, 512.0)
    assert (numbers.backend, numbers.init_s, numbers.checkpoint_fs) == ("gloo", 0.88, "OVERLAY")
    assert numbers.eager is True
    assert head.ready
    assert states(head) == {
        Stage.IMAGE: DONE,
        Stage.CONTAINER: DONE,
        Stage.ARGUMENTS: DONE,
        Stage.RENDEZVOUS: DONE,
        Stage.NCCL: SKIPPED,
        Stage.MODEL: DONE,
        Stage.WEIGHTS: DONE,
        Stage.LOADED: DONE,
        Stage.PROFILE: SKIPPED,
        Stage.KV_CACHE: DONE,
        Stage.WARMUP: SKIPPED,
        Stage.GRAPHS: SKIPPED,
        Stage.HTTP: DONE,
        Stage.SMOKE: PENDING,
        Stage.SERVING: PENDING,
    }
    inferred = {c.stage for c in head.cells() if c.inferred}
    assert inferred == {Stage.IMAGE, Stage.CONTAINER, Stage.LOADED}
    assert worker.current() is Stage.KV_CACHE
    assert states(worker)[Stage.KV_CACHE] is ACTIVE
    assert worker.numbers().log_rank == 4


def test_a_cpu_boot_without_eager_warms_up_before_its_cache() -> None:
    tracker = track("real-cpu-real-boot.log")
    seen = states(tracker)
    assert (seen[Stage.PROFILE], seen[Stage.KV_CACHE], seen[Stage.GRAPHS]) == (DONE, DONE, SKIPPED)
    assert tracker.stopping
    assert not tracker.failed


@pytest.mark.parametrize(
    ("name", "stage", "line"),
    [
        ("composed-fail-block-size.log", Stage.KV_CACHE, "WorkerProc hit an exception."),
        ("composed-fail-rendezvous.log", Stage.RENDEZVOUS, "WorkerProc failed to start."),
        ("real-cpu-fail-bad-flag.log", Stage.ARGUMENTS, "vllm: error: unrecognized arguments: --no-such-flag 1"),
    ],
)
def test_where_a_rank_died(name: str, stage: Stage, line: str) -> None:
    tracker = track(name)
    assert tracker.failed
    assert [c.stage for c in tracker.cells() if c.state is FAILED] == [stage]
    assert next(r for r in decode(data(name)) if r.index == tracker.failed_line).text == line


def test_a_missing_rank_is_counted_by_the_engine() -> None:
    tracker = track("composed-fail-rendezvous.log")
    assert tracker.numbers().joined_of == (7, 8)
    assert tracker.cells()[Stage.RENDEZVOUS].detail == "7/8"
    assert tracker.waiting == {0}
    assert tracker.joined == frozenset()


def test_the_caller_can_say_that_a_rank_died() -> None:
    tracker = track("composed-fail-wedge-rank1-docker-t.log")
    assert states(tracker)[Stage.WEIGHTS] is ACTIVE
    tracker.fail(1789777178.0)
    cell = tracker.cells()[Stage.WEIGHTS]
    assert (cell.state, cell.until) == (FAILED, 1789777178.0)


@pytest.mark.parametrize("name", LOGS)
def test_every_log_cut_at_every_line(name: str) -> None:
    """Stages never go back, done never turns into something else, and nothing is done before its line."""
    rank = WORKERS.get(name, 0)
    tracker = StageTracker(rank)
    floor, current = Stage.IMAGE, -1
    done: set[Stage] = set()
    texts = ""
    for record in decode(data(name), rank):
        tracker.feed([record])
        texts += record.text + "\n"
        now = tracker.current()
        assert tracker.passed >= floor
        assert (-1 if now is None else now) >= current
        floor, current = tracker.passed, -1 if now is None else now
        cells = tracker.cells()
        assert [c.stage for c in cells] == list(Stage)
        over = {c.stage for c in cells if c.state in (DONE, SKIPPED)}
        assert done <= over
        done = over
        assert tracker.ready == ("Application startup complete" in texts)
        if "Application startup complete" not in texts and "200 OK" not in texts:
            assert cells[Stage.HTTP].state is not DONE
        if not any(word in texts for word in AFTER_LOADING):
            assert cells[Stage.LOADED].state is PENDING
            assert cells[Stage.WEIGHTS].state is not DONE
        if "KV cache size" not in texts and "KV cache memory" not in texts and "for KV cache on node" not in texts:
            assert cells[Stage.KV_CACHE].state is PENDING
        if "init engine" not in texts and texts.count("Graph capturing finished") < 2:
            assert cells[Stage.GRAPHS].state is not DONE
        if (
            "distributed_init_method" in texts
            and "is assigned as" not in texts
            and "NCCL" not in texts
            and "nccl" not in texts
        ):
            assert cells[Stage.RENDEZVOUS].state is not DONE
        assert {cells[Stage.SMOKE].state, cells[Stage.SERVING].state} == {PENDING}
    assert tracker.ready == (name in READY)


def test_weights_run_twice_and_a_full_bar_is_not_loaded() -> None:
    tracker = StageTracker(0)
    seen: list[tuple[int, float | None]] = []
    for record in decode(data("composed-success.log")):
        tracker.feed([record])
        if "100% Completed" in record.text or "0% Completed | 0/" in record.text:
            assert tracker.current() is Stage.WEIGHTS
            number = tracker.weights_pass
            assert isinstance(number, int)
            seen.append((number, tracker.cells()[Stage.WEIGHTS].progress))
    assert seen == [(1, 0.0), (1, 1.0), (2, 0.0), (2, 1.0)]
    assert tracker.passes_expected == 2


def test_graphs_run_twice_and_the_first_only_sizes() -> None:
    tracker = StageTracker(0)
    stages = []
    for record in decode(data("composed-success.log")):
        tracker.feed([record])
        if "Capturing CUDA graphs (FULL)" in record.text:
            stages.append((tracker.current(), tracker.cells()[Stage.GRAPHS].state))
    assert stages == [(Stage.PROFILE, PENDING), (Stage.GRAPHS, ACTIVE)]


def test_progress_and_what_is_left_stand_in_the_cell() -> None:
    tracker = StageTracker(0)
    for record in decode(data("composed-success.log")):
        tracker.feed([record])
        if "| 6/48 [01:41<11:49" in record.text:
            break
    cell = tracker.cells()[Stage.WEIGHTS]
    assert (cell.progress, cell.detail) == (6 / 48, "12% 11:49 pass 1")


@pytest.mark.parametrize(
    ("lines", "transport"),
    [
        (["NCCL INFO NET/IB : No device found.", "NCCL INFO NET/Socket : Using [0]eth0:10.0.0.1<0>",
          "NCCL INFO Using network Socket"], "Socket"),
        (["NCCL INFO NET/IB : Using [0]mlx5_0:1/IB [RO]; OOB eth0", "NCCL INFO Using network IB"], "IB"),
        (["NCCL INFO NET/IB : Using [0]rocep1s0f0:1/RoCE", "NCCL INFO NET/Socket : Using [0]eth0",
          "NCCL INFO Channel 00/0 : 0[0] -> 1[0] [send] via NET/IB/0"], "RoCE"),
        (["NCCL INFO NET/IB : Using [0]rocep1s0f0:1/RoCE",
          "NCCL INFO Channel 00/0 : 0[0] -> 1[0] [send] via NET/Socket/0"], "Socket"),
    ],
)  # fmt: skip
def test_transport(lines: list[str], transport: str) -> None:
    tracker = StageTracker(0)
    tracker.feed(decode("".join(f"h:1:2 [0] {line}\n" for line in lines).encode()))
    assert tracker.numbers().transport == transport


@pytest.mark.parametrize(
    ("line", "mode"),
    [
        ("Resolved Engram configuration: EngramConfig(cpu_offload=False, embedding_across_dp=False)", "gpu"),
        ("Engram table DISK-backed: 48000771 rows x 256 per rank stay on disk (11.80 GiB not allocated)", "disk"),
        ("Engram layer 1 rows [0, 5) read from node-local /engram-local", "disk"),
    ],
)
def test_engram_modes(line: str, mode: str) -> None:
    tracker = StageTracker(0)
    tracker.feed(decode(f"(Worker_TP0 pid=1) INFO 09-18 23:05:32 [e.py:1] {line}\n".encode()))
    assert tracker.numbers().engram_mode == mode


def test_older_words_for_the_same() -> None:
    tracker = StageTracker(0)
    log = [
        "(EngineCore_DP0 pid=9) INFO 09-18 23:05:32 [k.py:1] GPU KV cache size: 1,234,560 tokens",
        "(EngineCore_DP0 pid=9) INFO 09-18 23:05:32 [k.py:2] Maximum concurrency for 4,096 tokens per request: 301.41x",
        "(EngineCore_DP0 pid=9) INFO 09-18 23:05:33 [c.py:3] init engine (profile, create kv cache, warmup model) took "
        "21.05 seconds",
        "(APIServer pid=1) INFO 09-18 23:05:33 [a.py:4] Starting vLLM API server 0 on http://0.0.0.0:8000",
    ]
    tracker.feed(decode("\n".join(log).encode()))
    numbers = tracker.numbers()
    assert (numbers.kv_tokens, numbers.max_context, numbers.concurrency) == (1234560, 4096, 301.41)
    assert (numbers.init_s, numbers.api_url) == (21.05, "http://0.0.0.0:8000")
    assert tracker.current() is Stage.HTTP


def test_a_tail_that_begins_after_the_start_shows_the_api_by_its_answers() -> None:
    tracker = StageTracker(0)
    tracker.feed(decode(b'INFO:     127.0.0.1:52114 - "GET /health HTTP/1.1" 200 OK\n'))
    cell = tracker.cells()[Stage.HTTP]
    assert (cell.state, cell.inferred, tracker.ready) == (DONE, True, False)


def test_a_user_cannot_say_that_the_engine_is_ready() -> None:
    tracker = StageTracker(0)
    tracker.feed(decode(b"(APIServer pid=1) INFO 09-18 23:05:32 [l.py:1] Received request x: prompt: "
                        b"'Application startup complete. GPU KV cache size: 5 tokens'\n"))  # fmt: skip
    assert not tracker.ready
    assert isinstance(tracker.numbers().kv_tokens, Absent)


def test_a_container_with_two_workers_is_loaded_when_both_are() -> None:
    tracker = StageTracker(0)
    head = "(Worker_TP{0} pid={1}) INFO 09-18 23:05:32 [a.py:1] "
    lines = [
        head + "world_size=2 rank={0} local_rank={0} distributed_init_method=tcp://1.2.3.4:5 backend=nccl",
        head + "rank {0} in world size 2 is assigned as DP rank 0, PP rank 0, TP rank {0}",
        head + "Model loading took 10.5 GiB memory and 3.25 seconds",
    ]
    for line in lines[:2]:
        for worker in (0, 1):
            tracker.feed(decode(line.format(worker, 100 + worker).encode()))
        if line is lines[0]:
            tracker.feed(decode(lines[1].format(0, 100).encode()))
            assert tracker.current() is Stage.RENDEZVOUS
    assert tracker.current() is Stage.MODEL
    tracker.feed(decode(lines[2].format(0, 100).encode()))
    assert tracker.current() is Stage.MODEL
    tracker.feed(decode(lines[2].format(1, 101).encode()))
    assert tracker.current() is Stage.LOADED


def test_every_phrase_has_its_handler_and_every_hit_its_name() -> None:
    tracker = StageTracker()
    assert set(tracker._handlers) == set(PHRASES)
    index = Index()
    for name in LOGS:
        for record in decode(data(name)):
            for found in MATTERS.finditer(record.text):
                assert index.name(found[0]) in PHRASES


HOSTILE = st.sampled_from(
    [
        "world_size=99999999999 rank=1 local_rank=0 distributed_init_method=x backend=nccl",
        "Model loading took ,,, GiB memory and , seconds",
        "KV cache size: , tokens",
        "Graph capturing finished in ,1 secs, took 1,.5 GiB",
        "rank 1 in world size 2 is assigned as DP rank 0",
        "Maximum concurrency for , tokens per request: ,x",
        "Loading weights took 1 s",
        "100%|x| 999999999/0 [9:9:9<?, ?it/s]",
        "Loading safetensors checkpoint shards: 1% Completed | 1/0 [00:00<99:99, .it/s]",
        "Avg prompt throughput: ,,, Running: 1 reqs",
        "SpecDecoding metrics: Mean acceptance length: ,",
        "Application startup complete",
    ]
)


@given(st.lists(st.one_of(HOSTILE, st.text(max_size=30)), max_size=30))
@settings(max_examples=150, deadline=None)
def test_hostile_text_never_raises(lines: list[str]) -> None:
    tracker = StageTracker(0)
    tracker.feed(decode("\n".join(lines).encode("utf-8", errors="surrogatepass")))
    tracker.cells()
    tracker.numbers().as_mapping()
    tracker.durations()
