"""One stream of several ranks is parted by the names before its lines; a rank is said where a name says it, and never
guessed."""
# ruff: noqa: E501 lines of logs are kept whole, as they are printed

from __future__ import annotations

from itertools import chain, zip_longest

import pytest

from console.enginelog.causes_model import Cause
from console.enginelog.diagnose import diagnose
from console.enginelog.parting import parting_of, ranks_by_name
from tests.enginelog.excerpts import excerpts
from tests.enginelog.logs import data

HEAD = data("composed-success.log").decode().split("\n")[:40]
# Neither says which rank it is: what stands before its lines does, or nothing.
QUIET = [f"INFO 09-18 23:05:{n:02d} [utils.py:1] still here" for n in range(20)]
FAILED = [
    "ERROR 09-18 23:07:00 [core.py:944] Traceback (most recent call last):",
    "ERROR 09-18 23:07:00 [core.py:944] safetensors_rust.SafetensorError: Error while deserializing header: incomplete metadata, file not fully covered",
]


def woven(before: dict[str, list[str]]) -> bytes:
    """The streams of several writers as one, a line of each in turn."""
    each = [[f"{prefix}{line}" for line in lines] for prefix, lines in before.items()]
    return "".join(f"{line}\n" for line in chain(*zip_longest(*each)) if line is not None).encode()


def cause(raw: bytes) -> Cause:
    found = diagnose([("all.log", None, lambda: [raw])]).cause
    assert found is not None and found.cls == "damaged_weights" and found.file == "all.log"
    assert found.line is not None and b"SafetensorError" in raw.split(b"\n")[found.line - 1]
    return found


# What stands before the lines of the rank that waits and of the one that fails: the rank and the node that are told.
FORMS: dict[str, tuple[str, str, int | None, str | None]] = {
    "compose": ("vllm-rank0  | ", "vllm-rank3  | ", 3, None),
    "compose-counts-from-one": ("vllm-1  | ", "vllm-2  | ", None, "vllm-2"),
    "compose-words": ("head    | ", "worker  | ", None, "worker"),
    "kubectl": ("[pod/vllm-0/engine] ", "[pod/vllm-1/engine] ", 1, "vllm-1"),
    "kubectl-two-sets": ("[pod/vllm-head-0/engine] ", "[pod/vllm-worker-0/engine] ", None, "vllm-worker-0"),
    "leader-worker-set": ("[pod/vllm-0/engine] ", "[pod/vllm-0-2/engine] ", 2, "vllm-0-2"),
    "stern": ("vllm-0 engine ", "vllm-1 engine ", 1, "vllm-1"),
    "stern-deployment": ("vllm-6d4b75cb6d-hwctx engine ", "vllm-6d4b75cb6d-zx2l9 engine ", None, "vllm-6d4b75cb6d-zx2l9"),
    "pdsh": ("spark1: ", "spark2: ", None, "spark2"),
    "pdsh-from-zero": ("spark-0: ", "spark-1: ", 1, "spark-1"),
    "srun": ("0: ", "3: ", 3, None),
    "mpirun": ("[1,0]<stderr>:", "[1,3]<stderr>:", 3, None),
    "torchrun": ("[rank0]: ", "[rank3]: ", 3, None),
    "log-server": ("Sep 18 23:05:30 dgx1 docker[12]: ", "Sep 18 23:05:30 dgx2 docker[12]: ", None, "dgx2"),
    "log-server-iso": ("2026-09-18T23:05:30+00:00 dgx1 docker[12]: ", "2026-09-18T23:05:30+00:00 dgx2 docker[12]: ", None, "dgx2"),
}  # fmt: skip


@pytest.mark.parametrize("form", FORMS)
def test_ranks_of_one_stream(form: str) -> None:
    quiet, failing, rank, node = FORMS[form]
    found = cause(woven({quiet: QUIET, failing: FAILED}))
    assert (found.rank, found.node) == (rank, node)


def test_what_a_log_says_of_itself_goes_before_a_name_that_counts() -> None:
    own = [
        "INFO 09-18 23:05:01 [parallel_state.py:1234] world_size=4 rank=2 local_rank=0 distributed_init_method=tcp://10.0.0.1:29501 backend=nccl"
    ]
    assert cause(woven({"vllm-0 engine ": QUIET, "vllm-1 engine ": own + FAILED})).rank == 2


def test_ray_tells_the_node_of_a_worker() -> None:
    raw = woven({"": HEAD, "(RayWorkerWrapper pid=77, ip=10.0.0.2) ": FAILED})
    assert cause(raw).node == "10.0.0.2"
    # The same process number on two nodes is two writers.
    tangled = [f"(RayWorkerWrapper pid=77, ip=10.0.0.{n}) {line}" for line in FAILED for n in (3, 2)]
    assert cause("\n".join([*tangled, ""]).encode()).node == "10.0.0.3"


@pytest.mark.parametrize(
    ("names", "ranks"),
    [
        ((b"a-rank2", b"a-rank5"), {b"a-rank2": 2, b"a-rank5": 5}),
        ((b"a-rank2", b"b-rank2"), {}),
        ((b"vllm-0", b"vllm-0-1", b"vllm-0-2"), {b"vllm-0": 0, b"vllm-0-1": 1, b"vllm-0-2": 2}),
        ((b"vllm-0", b"vllm-1", b"vllm-2"), {b"vllm-0": 0, b"vllm-1": 1, b"vllm-2": 2}),
        ((b"head-0", b"worker-0", b"worker-1"), {}),
        ((b"spark1", b"spark2"), {}),
        ((b"spark-1", b"spark-2"), {}),
        ((b"vllm-0",), {}),
        ((), {}),
    ],
)
def test_names(names: tuple[bytes, ...], ranks: dict[bytes, int]) -> None:
    assert ranks_by_name(names) == ranks


@pytest.mark.parametrize("name", [e.name for e in excerpts() if b"|" not in e.data and e.name != "torchrun-tee"])
def test_no_log_of_one_writer_is_parted(name: str) -> None:
    raw = next(e.data for e in excerpts() if e.name == name)
    assert parting_of(raw) is None


def test_ranks_that_only_a_line_names() -> None:
    """Two files without a rank in their names: the first error in time is one rank's, and the other complains later."""
    head = (
        "(APIServer pid=1) INFO:     Application startup complete.\n"
        "(Worker_TP0_DCP0 pid=232) ERROR 09-07 20:59:45 [multiproc_executor.py:990] Traceback (most recent call last):\n"
        "(Worker_TP0_DCP0 pid=232) ERROR 09-07 20:59:45 [multiproc_executor.py:990] RuntimeError: Triton Error [CUDA]: operation not permitted\n"
        "[rank0]:[E907 21:09:45.072414592 ProcessGroupNCCL.cpp:1914] [PG ID 0 PG GUID 0 Rank 0] Received a dump signal due to a collective timeout from  rank 3 and we will try our best to dump the debug info.\n"
        "(EngineCore pid=185) ERROR 09-07 21:18:35 [multiproc_executor.py:284] Worker proc VllmWorker-0 died unexpectedly, shutting down executor.\n"
    )
    worker = (
        "(Worker_TP1_DCP1 pid=179) WARNING 09-07 17:51:31 [jit_monitor.py:106] Triton kernel JIT compilation during inference: _fp8_mqa_logits_kernel.\n"
        "[rank1]:[E907 21:09:45.943905843 ProcessGroupNCCL.cpp:689] [Rank 1] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=15577, OpType=_ALLGATHER_BASE, NumelIn=8093696, NumelOut=16187392, Timeout(ms)=600000) ran for 600067 milliseconds before timing out.\n"
        "ERROR 09-07 21:18:52 [multiproc_executor.py:284] Worker proc VllmWorker-1 died unexpectedly, shutting down executor.\n"
    )
    for logs in ((head, worker), (worker, head)):
        found = diagnose([(f"spark{n}.log", None, lambda text=text: [text.encode()]) for n, text in enumerate(logs)])  # type: ignore[misc]
        assert found.cause is not None
        assert (found.cause.cls, found.cause.rank, found.cause.victims) == ("kernel_runtime_failure", 0, (1,))
        assert "operation not permitted" in found.cause.evidence[0]


def test_the_node_that_a_log_came_from_is_said() -> None:
    for line, node in (
        ("Aug 28 11:55:08 spark1 kernel: NVRM: Xid (PCI:000f:01:00): 79, GPU has fallen off the bus.", "spark1"),
        ("NVRM: Xid (PCI:000f:01:00): 79, GPU has fallen off the bus.", None),
    ):
        found = diagnose([("kernel.log", None, lambda line=line: [f"{line}\n".encode()])]).cause  # type: ignore[misc]
        assert found is not None and found.node == node


def test_a_rank_that_waits_for_ray_has_a_note() -> None:
    raw = next(e.data for e in excerpts() if e.name == "ray-placement-waits")
    found = diagnose([("vllm.log", None, lambda: [raw])])
    assert found.cause is None and [c.cls for c in found.others] == ["ray_resources_missing"]
