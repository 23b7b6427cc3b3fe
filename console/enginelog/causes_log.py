"""What one rank's own log says of why it failed."""
# ruff: noqa: E501 a table of places reads best as rows

from __future__ import annotations

import re
from dataclasses import replace
from itertools import pairwise
from typing import Final

from console.base.absent import Absent
from console.enginelog.causes_finding import Finding, Tier, stage_of
from console.enginelog.causes_ranks import node_of, rank_of
from console.enginelog.causes_time import Clock
from console.enginelog.evidence import ContainerState, Hit, Mark, RankEvidence, Trace, Trail
from console.enginelog.signatures import SIGNATURES, advice
from console.enginelog.signatures_launchers import (
    COMPOSE_END,
    ENDS,
    MPI_END,
    RAY_END,
    SHELL_END,
    TORCHRUN_END,
    TORCHRUN_TOLD,
)
from console.enginelog.signatures_model import Kind, Signature, filled
from console.enginelog.signatures_neutral import DIED, INTERRUPTED, RANK_END, SGLANG_END

# A bare line of such a signature is the whole of what a process says before it ends.
_ENDS_BY_ITSELF: Final = 85
_UNKNOWN_WEIGHT: Final = 30
_SIGNALS: Final = {
    6: ("kernel_runtime_failure", "aborted itself (SIGABRT)"),
    7: ("stale_mount", "hit a bus error (SIGBUS): a mapped file or /dev/shm went away"),
    11: ("kernel_runtime_failure", "crashed (SIGSEGV)"),
    15: ("killed_from_outside", "was asked to end (SIGTERM)"),
    9: ("killed_from_outside", "was killed (SIGKILL)"),
    2: ("killed_from_outside", "was interrupted (SIGINT)"),
    1: ("killed_from_outside", "lost its terminal (SIGHUP)"),
}
# By where it was raised: the first pattern that a traceback's places or words show.
_BY_PLACE: Final = (
    ("tokenizer_load_error", "The tokenizer could not be loaded", re.compile(r"tokeniz", re.IGNORECASE)),
    ("compiler_failed", "The compiler (torch.compile, Inductor or Triton) failed", re.compile(r"torch/_(?:inductor|dynamo|functorch)|triton/(?:compiler|runtime|backends)")),
    ("jit_build_failed", "Kernels could not be compiled on the node", re.compile(r"flashinfer/jit|cpp_extension|deep_gemm/jit|tvm_ffi/cpp|tilelang/jit")),
    ("cudagraph_capture_failed", "An error came while CUDA graphs were captured", re.compile(r"cuda_?graph|capture_model|graph_capture")),
    ("checkpoint_mismatch", "The weights could not be loaded into the model", re.compile(r"load_weights|weight_loader|default_loader|weight_utils")),
    ("config_rejected", "The engine refuses its configuration", re.compile(r"arg_utils|server_args|vllm/config|vllm/engine/arg|argparse")),
    ("model_code_error", "The model's code, or its quantization, failed in this image", re.compile(r"model_executor/models|sglang/srt/models|transformers_modules|modeling_")),
)  # fmt: skip
# A semaphore or shared memory that finds no room says the same as a full disk.
_SHARED: Final = re.compile(r"multiprocessing/(?:synchronize|shared_memory|heap|context)|shm_broadcast|SemLock")
_SHM_FULL: Final = next(s for s in SIGNATURES if s.cls == "shm_full")
_SHELL: Final = {"Killed": "-9", "Segmentation fault": "-11", "Aborted": "-6"}
_WORKERS: Final = ("Worker", "VllmWorker")
# About as many as a collector keeps: where there are more, what the worker said may be among the rest.
_MOST_TRACES: Final = 60
_ENDED: Final = frozenset({id(DIED), id(SGLANG_END), id(RANK_END), *map(id, ENDS)})
# Requests of users fail in the API server without any harm to the engine; its raw tracebacks carry no name.
_SERVES_USERS: Final = frozenset({"APIServer", None})


def findings(where: RankEvidence, clock: Clock, ready: float | None, stopped: float | None) -> list[Finding]:
    """Findings of one rank's log in the order of its lines. ready: when the head was ready; what came before it did no
    harm. stopped: when the boot was stopped on purpose; what comes after it is no failure."""
    trail = where.trail
    if trail is None:
        return []
    relayed = {h.index for h in trail.hits if h.signature.kind is Kind.WRAPPER and "why" in h.values}
    out: list[Finding] = []
    places = {t.index: "\n".join(t.frames) for t in trail.traces}
    over = _over(trail)
    for hit in trail.hits:
        if hit.signature.kind is Kind.RECOVERED or hit.index in over:
            continue
        if hit.signature.cls == "disk_full" and _SHARED.search(places.get(hit.index, "")):
            hit = replace(hit, signature=_SHM_FULL)
        if _excused(where, clock, hit, ready, stopped):
            continue
        found = _of_death(where, clock, hit) if id(hit.signature) in _ENDED else None
        if found is None:
            found = _of_hit(where, clock, hit, hit.index in relayed)
        out.append(found)
    leads = _led_to_known(trail.traces)
    for trace in trail.traces:
        if not trace.known and trace.index not in leads and not _excused(where, clock, trace, ready, stopped):
            out.append(_of_trace(where, clock, trace))
    if trail.stop is not None and where.rank not in (0, None) and stopped is None:
        out.append(_of_stop(where, clock, trail.stop))
    if trail.lag_grew is not None:
        out.append(_of_lag(where, clock))
    silent = _of_silent_worker(where, clock)
    if silent is not None:
        out.append(silent)
    return sorted(out, key=lambda f: (f.index if f.index is not None else -1, -f.weight))


def _led_to_known(traces: tuple[Trace, ...]) -> set[int]:
    """Lines of unknown exceptions that were handled, or wrapped, by one that is known: that one speaks for them."""
    out: set[int] = set()
    for earlier, later in pairwise(traces):
        if later.chained and later.process == earlier.process and (later.known or later.index in out):
            out.add(earlier.index)
    return out


def _over(trail: Trail) -> set[int]:
    """Lines whose complaint a later one takes back, or that the log's end no longer makes."""
    hits = trail.hits
    out: set[int] = set()
    for hit in hits:
        if hit.signature.cls == "serving_hang" and not any(hit.text[:24] in line for line in trail.tail):
            out.add(hit.index)
        if hit.signature.kind is Kind.RECOVERED:
            about = (hit.signature.cls, hit.values.get("who"))
            out |= {h.index for h in hits if h.index < hit.index and (h.signature.cls, h.values.get("who")) == about}
    return out


def _excused(where: RankEvidence, clock: Clock, what: Hit | Trace, ready: float | None, stopped: float | None) -> bool:
    trail = where.trail
    if trail is None:
        return True
    if trail.ready is not None and what.index < trail.ready.index:
        return not _later_in_time(trail.ready, what)
    if _by_hand(where, what):
        return True
    if trail.stop is not None and what.index > trail.stop.index:
        return not _earlier_in_time(trail.stop, what)
    moment = clock.of(where, what)
    if ready is not None and moment is not None and moment < ready - 1.0:
        return True
    if stopped is not None and moment is not None and moment > stopped - 1.0:
        return True
    served = trail.ready is not None or (ready is not None and moment is not None)
    return served and what.process in _SERVES_USERS and not _fatal(where, what)


def _by_hand(where: RankEvidence, what: Hit | Trace) -> bool:
    """Ctrl-C on an engine that serves is how it is stopped; on one rank of several it is a failure."""
    trail = where.trail
    if trail is None or trail.ready is None or where.rank not in (0, None):
        return False
    pressed = next((h.index for h in trail.hits if h.signature is INTERRUPTED and h.index > trail.ready.index), None)
    return pressed is not None and what.index >= pressed


def _later_in_time(mark: Mark, what: Hit | Trace) -> bool:
    """Standard error and standard output pass each other in docker's logs: the stamps decide where they speak."""
    return mark.docker_at is not None and what.docker_at is not None and what.docker_at > mark.docker_at + 1.0


def _earlier_in_time(mark: Mark, what: Hit | Trace) -> bool:
    return mark.docker_at is not None and what.docker_at is not None and what.docker_at < mark.docker_at - 1.0


def _fatal(where: RankEvidence, what: Hit | Trace) -> bool:
    """Whether words of the part that serves users are about the engine itself, and not about a user's request."""
    if isinstance(what, Hit) and (what.signature.kind is Kind.WRAPPER or what.kind == "uvicorn"):
        return True
    if isinstance(what, Hit) and what.signature.stage == "serving":
        return True
    if isinstance(where.container, ContainerState) and where.container.ended:
        return True
    trail = where.trail
    since = trail.ready.index if trail is not None and trail.ready is not None else 0
    return trail is not None and any(h.signature.kind is Kind.WRAPPER and h.index > since for h in trail.hits)


def _of_hit(where: RankEvidence, clock: Clock, hit: Hit, relayed: bool) -> Finding:
    signature = hit.signature
    tier = _tier(hit)
    weight = signature.weight - (30 if relayed and tier is Tier.PROOF else 0)
    if relayed and tier is Tier.PROOF:
        tier = Tier.SYMPTOM
    return _finding(
        where, clock, hit, signature, filled(signature.sentence, hit.values), tier, weight, (hit.text, *hit.more)
    )


def _tier(hit: Hit) -> Tier:
    kind = hit.signature.kind
    if kind is Kind.WRAPPER:
        return Tier.WRAPPER
    if kind is Kind.VICTIM:
        return Tier.VICTIM
    if kind is Kind.HINT:
        return Tier.LOOSE
    if not hit.traced and (hit.level == "WARNING" and hit.kind != "nccl"):
        return Tier.LOOSE
    bare = not hit.traced and hit.level not in ("ERROR", "CRITICAL")
    if bare and hit.signature.weight < _ENDS_BY_ITSELF and not hit.signature.alone:
        # The C libraries warn of what they then survive, and a bare line may be anyone's.
        return Tier.SYMPTOM if kind is Kind.SYMPTOM else Tier.LOOSE
    return Tier.SYMPTOM if kind is Kind.SYMPTOM else Tier.PROOF


def _of_death(where: RankEvidence, clock: Clock, hit: Hit) -> Finding | None:
    """ "died unexpectedly (exit code: -9)" as what the code says; None where it says nothing."""
    code = hit.values.get("code", "")
    if hit.signature is COMPOSE_END:
        # 130 and 143 are how compose itself ends a container.
        status = int(hit.values["exit"])
        code = f"-{status - 128}" if status > 128 and status not in (130, 143) else ""
    elif hit.signature is SHELL_END:
        code = _SHELL.get(hit.values.get("how", ""), "")
    elif hit.signature in ENDS and hit.signature is not TORCHRUN_END:
        code = f"-{hit.values['signal']}" if "signal" in hit.values else "None"
    what = hit.values.get("what", "A process of the engine")
    if "local" in hit.values:
        what = f"The process of local rank {hit.values['local']} (pid {hit.values.get('pid', '?')})"
    elif hit.signature is TORCHRUN_TOLD:
        what = "The launcher"
    elif hit.signature is MPI_END:
        what = f"Rank {hit.values.get('rank', '?')} on {hit.values.get('node', '?')}"
    elif hit.signature is RAY_END:
        what = "A worker process of Ray"
    if code == "None":
        cls, words = "killed_from_outside", "vanished without an exit code, as after SIGKILL"
    elif code.startswith("-") and code[1:].isdigit() and int(code[1:]) in _SIGNALS:
        cls, words = _SIGNALS[int(code[1:])]
        if hit.signature is SGLANG_END and code == "-15":
            return None
    else:
        return None
    # An abort is how a watchdog or an assertion ends a process: they say why, where they speak.
    tier = Tier.LOOSE if code == "-6" else Tier.STATE
    found = _finding(
        where, clock, hit, hit.signature, f"{what} {words}.", tier, hit.signature.weight, (hit.text,), cls=cls
    )
    return replace(found, action=DIED.action) if hit.signature is TORCHRUN_END else found


def _of_trace(where: RankEvidence, clock: Clock, trace: Trace) -> Finding:
    places = "\n".join(trace.frames)
    cls, sentence = next(((c, words) for c, words, at in _BY_PLACE if at.search(places)), ("unknown_exception", ""))
    known, action = advice(cls)
    return Finding(
        cls,
        f"{sentence or known.rstrip('.')}: {trace.text[:300]}",
        action,
        Tier.PROOF,
        _UNKNOWN_WEIGHT,
        rank_of(where, trace.process, trace.text),
        node_of(where, trace.process),
        stage_of(where.cells, trace.index),
        where.file,
        trace.index + where.line_offset,
        clock.of(where, trace),
        trace.docker_at,
        (trace.text, *trace.frames[-2:]),
        known=False,
    )


def _may_have_ended(where: RankEvidence, trail: Trail) -> bool:
    runs = isinstance(where.container, ContainerState) and not where.container.ended
    return not runs and trail.ready is None and trail.stop is None


def cut_short(where: RankEvidence) -> bool:
    """The log ends within a traceback: it failed, and why was cut away."""
    return where.trail is not None and where.trail.cut and _may_have_ended(where, where.trail)


def last_words(where: RankEvidence, clock: Clock) -> Finding | None:
    """An exception that nothing knows, as the last that a log says: the process ended with it. Only where it did not
    serve: a request's error ends nothing."""
    trail = where.trail
    if trail is None or not trail.orphans or not _may_have_ended(where, trail):
        return None
    last = trail.orphans[0]
    words = f"The log ends with an error that is not in the list of known ones: {last.text[:300]}"
    return replace(_of_trace(where, clock, last), sentence=words, action="read that line, and what stands above it")


def _of_stop(where: RankEvidence, clock: Clock, stop: Mark) -> Finding:
    """A worker alone was asked to stop, while nobody stopped the boot."""
    words, action = "This rank was asked to stop (SIGTERM), and the boot was not.", advice("killed_from_outside")[1]
    index, stage = stop.index + where.line_offset, stage_of(where.cells, stop.index)
    return Finding(
        "killed_from_outside", words, action, Tier.STATE, 44, where.rank, where.node, stage, where.file, index,
        clock.of(where, stop), stop.docker_at,
    )  # fmt: skip


def _of_silent_worker(where: RankEvidence, clock: Clock) -> Finding | None:
    """The executor learns that a worker process is gone, and the worker itself had no last word: one that fails by
    itself writes a traceback before it ends. Only of a log that begins with the engine's start: else the words may be
    cut away."""
    trail = where.trail
    if trail is None or where.numbers is None or isinstance(where.numbers.version, Absent):
        return None
    hit = next((h for h in trail.hits if "WorkerProc initialization failed" in h.text), None)
    if hit is None or len(trail.traces) > _MOST_TRACES:
        return None
    spoke = [*(t.process for t in trail.traces), *(h.process for h in trail.hits if h.level in ("ERROR", "CRITICAL"))]
    if any(p is not None and p.startswith(_WORKERS) for p in spoke) or any(
        h.signature.kind is Kind.CAUSE and h.index <= hit.index and _tier(h) is Tier.PROOF for h in trail.hits
    ):
        return None
    words = "A worker process of this rank ended without a last word, as after SIGKILL."
    found = _finding(where, clock, hit, DIED, words, Tier.STATE, 47, (hit.text,))
    return replace(found, action=advice("killed_from_outside")[1])


def _of_lag(where: RankEvidence, clock: Clock) -> Finding:
    trail = where.trail
    assert trail is not None and trail.lag_grew is not None
    _, action = advice("host_wedged")
    return Finding(
        "host_wedged",
        f"The node falls behind itself: docker stamps its lines up to {trail.lag_s:.0f} s after the engine wrote them.",
        action,
        Tier.STATE,
        70,
        where.rank,
        where.node,
        stage_of(where.cells, trail.lag_grew.index),
        where.file,
        trail.lag_grew.index + where.line_offset,
        clock.of(where, trail.lag_grew),
        trail.lag_grew.docker_at,
        (trail.lag_text,),
    )


def _finding(
    where: RankEvidence,
    clock: Clock,
    hit: Hit,
    signature: Signature,
    sentence: str,
    tier: Tier,
    weight: int,
    evidence: tuple[str, ...],
    *,
    cls: str = "",
) -> Finding:
    return Finding(
        cls or signature.cls,
        sentence,
        filled(signature.action, hit.values) if "{" in signature.action else signature.action,
        tier,
        weight,
        rank_of(where, hit.process, hit.text, *hit.more),
        node_of(where, hit.process, hit.values.get("node", "")),
        stage_of(where.cells, hit.index) or signature.stage,
        where.file,
        hit.index + where.line_offset,
        clock.of(where, hit),
        hit.docker_at,
        evidence,
    )
