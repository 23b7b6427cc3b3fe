"""What a rank's container, launch and node say of why it failed, where its log says nothing."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from console.base.absent import Absent
from console.base.text import clean_line
from console.base.times import utc_text
from console.enginelog.causes_finding import Finding, Tier, state_finding
from console.enginelog.causes_kernel import Whose, whose
from console.enginelog.causes_memory import of_guard, ran_out, with_samples
from console.enginelog.evidence import ContainerState, RankEvidence
from console.enginelog.signatures import matches
from console.enginelog.signatures_model import Kind, Signature, filled
from console.enginelog.stages_model import Stage

_GIB: Final = 1024**3
# Below this a node has nothing left to answer with (public reports: available and free both go to zero).
_SCARCE_BYTES: Final = 2 * _GIB
_COMPILING: Final = frozenset(
    {Stage.PROFILE.word, Stage.WARMUP.word, Stage.GRAPHS.word, Stage.KV_CACHE.word, Stage.LOADED.word}
)
_NO_BANNER: Final = ("banner", "silent", "accepts")
_SHOWN: Final = 400
# [inferred] A machine of this kind takes two to three minutes from power to the first word of its services.
_COMES_UP_S: Final = 180.0
REMOVED: Final = "Its container was removed (by hand or by another tool, not by a console)."
VANISHED: Final = "Its container is gone, and nobody here saw who removed it: a hand, another tool, another console."
_ASK: Final = "ask who removed it (`docker events`, shell history, a cleanup job there); stop, then launch again"
_CAUSES: Final = frozenset({Kind.CAUSE})
_OF_KERNEL: Final = frozenset({Kind.CAUSE, Kind.SYMPTOM})


def findings(where: RankEvidence, stopped: float | None) -> list[Finding]:
    """Findings of one rank's surroundings. stopped: when the boot was stopped on purpose (epoch s)."""
    out = [*_of_launch(where), *_of_kernel(where, stopped)]
    if where.guard:
        out.append(of_guard(where))
    if where.rebooted and (stopped is None or where.fell_before_stop is True):
        out.append(_of_reboot(where))
    if where.removed and (stopped is None or where.fell_before_stop is True):
        at = where.removed_at
        words = REMOVED if at is not None else VANISHED
        out.append(state_finding(where, "killed_from_outside", words, action=_ASK, weight=92, moment=at))
    container = where.container
    if isinstance(container, ContainerState):
        out += _of_container(where, container, stopped)
    if where.reachable is False:
        out.append(_of_silence(where))
    if where.clock_latched:
        out.append(state_finding(where, "clock_latch", tier=Tier.LOOSE, weight=45))
    if where.fragmented:
        out.append(_of_fragments(where))
    return with_samples(out, where)


def _of_reboot(where: RankEvidence) -> Finding:
    """The node went down before it came up: what others complain of meanwhile came after its last word."""
    up, last = where.rebooted_at, where.last_alive_at
    node = clean_line(where.node, limit=120) or "The node"
    if up is None:
        return state_finding(where, "host_rebooted", tier=Tier.PROOF, weight=90, moment=_ended_at(where))
    words = f"{node} was rebooted or lost power: it came up again at {utc_text(up)}."
    said = () if last is None else (f"the last word of {node} before that: {utc_text(last)}",)
    went = last if last is not None else up - _COMES_UP_S
    found = state_finding(where, "host_rebooted", words, tier=Tier.PROOF, weight=90, moment=went, evidence=said)
    return replace(found, at=last if last is not None else up)


def _of_fragments(where: RankEvidence) -> Finding:
    """Memory in small pieces slows every launch; with the driver's refusal and a rank that is gone it is the cause."""
    refused = tuple(clean_line(line, limit=_SHOWN) for line in where.kernel if "NV_ERR_NO_MEMORY" in line)[:2]
    gone = isinstance(where.container, ContainerState) and where.container.ended and where.container.exit_code != 0
    if refused and gone:
        words = "The driver found no memory in one piece although GiBs were free: the node's memory is fragmented."
        return state_finding(where, "memory_fragmented", words, weight=72, moment=_ended_at(where), evidence=refused)
    return state_finding(where, "memory_fragmented", tier=Tier.LOOSE, weight=40, evidence=refused)


def scarce(where: RankEvidence) -> bool:
    """The node's available memory fell to nearly nothing during the boot."""
    low = where.available_low_bytes
    return where.memory_fell or (low is not None and low < _SCARCE_BYTES) or ran_out(where)


def _shown(text: str) -> tuple[str, ...]:
    return tuple(clean_line(line, limit=_SHOWN) for line in text.splitlines() if line.strip())[:4]


def _ended_at(where: RankEvidence) -> float | None:
    return where.container.finished_at if isinstance(where.container, ContainerState) else None


def _of_words(where: RankEvidence, text: str, moment: float | None, stage: str) -> Finding | None:
    """The most telling signature among some lines of another program's output, of what is not over by its end."""
    found = _most_telling(where, text, moment, stage, _CAUSES)
    return None if found is None else found[0]


def _most_telling(
    where: RankEvidence, text: str, moment: float | None, stage: str, kinds: frozenset[Kind]
) -> tuple[Finding, Kind, str] | None:
    """What `_of_words` says, of which kind it is, and the whole line that it is from."""
    known: list[tuple[Signature, dict[str, str], str]] = []
    for raw in text.splitlines()[:200]:
        line = clean_line(raw, limit=2000)
        for signature, values in matches(line):
            if signature.kind is Kind.RECOVERED:
                over = (signature.cls, values.get("who"))
                known = [k for k in known if (k[0].cls, k[1].get("who")) != over]
            elif signature.kind in kinds:
                known.append((signature, values, line))
    if not known:
        return None
    best, values, line = max(known, key=lambda k: k[0].weight)
    weight, cls, sentence = best.weight, best.cls, filled(best.sentence, values)
    action = filled(best.action, values) if "{" in best.action else best.action
    made = state_finding(
        where,
        cls,
        sentence,
        action=action,
        tier=Tier.PROOF,
        weight=weight,
        moment=moment,
        evidence=(line[:_SHOWN],),
        stage=stage,
    )
    return made, best.kind, line


def _of_launch(where: RankEvidence) -> list[Finding]:
    launch = where.launch
    if launch is None or launch.rc in (0, None):
        if launch is None or launch.rc == 0 or isinstance(where.container, ContainerState):
            return []
        words = "The node never answered to the launch of its container."
        return [
            state_finding(
                where, "rank_missing", words, moment=launch.at, evidence=_shown(launch.output), stage="container"
            )
        ]
    found = _of_words(where, launch.output, launch.at, "container")
    if found is not None:
        return [found]
    last = _shown(launch.output)[-1:] or (f"exit {launch.rc}, without a word",)
    sentence = f"The container could not be started (exit {launch.rc}): {last[0]}"
    return [
        state_finding(
            where,
            "container_refused",
            sentence,
            tier=Tier.PROOF,
            moment=launch.at,
            evidence=_shown(launch.output),
            stage="container",
        )
    ]


def _of_kernel(where: RankEvidence, stopped: float | None) -> list[Finding]:
    ours = [line for line in where.kernel if whose(where, line) in (Whose.OURS, Whose.LIKELY)]
    telling = _most_telling(where, "\n".join(ours), _ended_at(where), "", _OF_KERNEL)
    telling = telling or _most_telling(where, "\n".join(where.kernel), _ended_at(where), "", _OF_KERNEL)
    if telling is None:
        return []
    found, kind, line = telling
    # What the kernel wrote may be about another process: it counts where the rank is gone, and it is not another's.
    # That a CPU or a file server stood still for a while is a note, whoever ended.
    by = whose(where, line)
    if kind is Kind.CAUSE and where.container is not None and fell(where, stopped) and by in (Whose.OURS, Whose.LIKELY):
        return [found]
    # A note of 50 and more may become the cause of a boot that nothing else explains.
    weight = {Whose.OTHERS: 30, Whose.MAYBE: 45}.get(by, 50)
    return [
        state_finding(where, found.cls, found.sentence, tier=Tier.LOOSE, weight=weight, evidence=found.evidence),
    ]


def fell(where: RankEvidence, stopped: float | None) -> bool:
    """The rank's container ended or is gone, and no stop of the boot did that. stopped: epoch s."""
    if where.container is None:
        return stopped is None or where.fell_before_stop is True
    ended = isinstance(where.container, ContainerState) and where.container.ended
    return ended and not ended_by_stop(where, stopped)


def ended_by_stop(where: RankEvidence, stopped: float | None) -> bool:
    """The container ended because the boot was stopped: it had not ended when that began. stopped: epoch s."""
    box = where.container
    if stopped is None or not isinstance(box, ContainerState) or not box.ended:
        return False
    if where.fell_before_stop is not None:
        return not where.fell_before_stop
    return box.finished_at is None or box.finished_at + where.clock_offset_s > stopped - 1.0


def _of_container(where: RankEvidence, box: ContainerState, stopped: float | None) -> list[Finding]:
    at = box.finished_at
    if ended_by_stop(where, stopped):
        return []
    if box.error and (box.status == "created" or box.exit_code in (125, 126, 127, 128)):
        found = _of_words(where, box.error, at or box.started_at, "container")
        if found is not None:
            return [found]
        words = f"The container could not be started: {clean_line(box.error, limit=200)}"
        return [
            state_finding(
                where, "container_refused", words, tier=Tier.PROOF, weight=80, moment=at, evidence=_shown(box.error)
            )
        ]
    if box.status == "paused":
        words = "The container is paused: its processes stand still, and the other ranks wait for it."
        return [
            state_finding(where, "collective_hang", words, action="`docker unpause` it, or stop the boot", weight=80)
        ]
    if box.status == "restarting":
        words = "The container restarts again and again: a rank that comes back alone never rejoins."
        return [state_finding(where, "killed_from_outside", words, weight=30)]
    if not box.ended:
        return []
    if box.oom_killed:
        return [
            state_finding(
                where,
                "host_oom",
                "The kernel's OOM killer ended the container.",
                tier=Tier.PROOF,
                weight=97,
                moment=at,
                evidence=_state_line(box),
            )
        ]
    return _of_code(where, box)


def _state_line(box: ContainerState) -> tuple[str, ...]:
    oom = "" if box.oom_killed is None else f", OOMKilled {str(box.oom_killed).lower()}"
    return (f"container {box.status}, exit code {box.exit_code}{oom}",)


def _of_code(where: RankEvidence, box: ContainerState) -> list[Finding]:
    at, code, evidence = box.finished_at, box.exit_code, _state_line(box)
    if code == 137:
        return [_of_kill(where, at, evidence)]
    if code == 143:
        words = "The container was ended by SIGTERM."
        return [state_finding(where, "killed_from_outside", words, weight=48, moment=at, evidence=evidence)]
    if code == 130:
        words = "The container was interrupted (Ctrl-C)."
        return [state_finding(where, "killed_from_outside", words, weight=48, moment=at, evidence=evidence)]
    if code == 135:
        words = "The engine ended with a bus error: a mapped file or /dev/shm went away under it."
        return [state_finding(where, "stale_mount", words, weight=52, moment=at, evidence=evidence)]
    if code == 139:
        words = "The engine crashed (SIGSEGV) without a word."
        return [state_finding(where, "kernel_runtime_failure", words, weight=46, moment=at, evidence=evidence)]
    if code == 134:
        # An abort is how a watchdog or an assertion ends a process: they say why, where they speak.
        words = "The engine aborted itself (SIGABRT) without a word."
        found = state_finding(where, "kernel_runtime_failure", words, weight=50, moment=at, evidence=evidence)
        return [replace(found, tier=Tier.LOOSE)]
    if code == 0:
        words = "The rank's container ended with exit code 0, as after a stop; nobody stopped this boot."
        return [state_finding(where, "killed_from_outside", words, weight=35, moment=at, evidence=evidence)]
    if code in (125, 126, 127):
        words = f"The container's command could not be run (exit {code})."
        return [
            state_finding(where, "python_env_broken", words, weight=46, moment=at, evidence=evidence, stage="container")
        ]
    if code is not None and code != 0:
        words = f"The rank's container ended with exit code {code}, and no log at hand says why."
        return [
            state_finding(where, "cause_not_in_log", words, tier=Tier.WRAPPER, weight=15, moment=at, evidence=evidence)
        ]
    return []


def _of_kill(where: RankEvidence, at: float | None, evidence: tuple[str, ...]) -> Finding:
    """SIGKILL. On GB10 docker says OOMKilled=false even where the kernel killed for memory, so that says nothing."""
    if scarce(where):
        stage = _stage(where)
        if stage in _COMPILING:
            words = "The rank was killed while its kernels were built, as the node's memory ran out."
            return state_finding(where, "host_oom_during_jit", words, weight=75, moment=at, evidence=evidence)
        words = "The rank was killed as the node's memory ran out."
        return state_finding(where, "host_oom", words, weight=75, moment=at, evidence=evidence)
    words = "The rank was killed (SIGKILL, exit 137), and its log says nothing of it."
    todo = (
        "see dmesg for the OOM killer, a memory guard's marker, and who stopped it; OOMKilled=false is normal on GB10"
    )
    return state_finding(where, "killed_from_outside", words, action=todo, weight=50, moment=at, evidence=evidence)


def _stage(where: RankEvidence) -> str:
    opened = [c.stage for c in where.cells if c.line is not None]
    return max(opened).word if opened else ""


def _of_silence(where: RankEvidence) -> Finding:
    """A node that does not answer. What happened there, and when, nobody here knows."""
    trouble = where.trouble.lower()
    said = _shown(where.trouble)
    if any(word in trouble for word in _NO_BANNER) or scarce(where):
        cls = "host_oom_during_jit" if scarce(where) and _stage(where) in _COMPILING else "host_wedged"
        return state_finding(where, cls, weight=70, evidence=said)
    return state_finding(where, "node_unreachable", weight=60, evidence=said)


def has_container(where: RankEvidence) -> bool | None:
    """None: nobody knows."""
    if isinstance(where.container, Absent):
        return None
    return where.container is not None
