"""Which alarms there are, what raises them by default, and how an operator's settings change that."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from console.base.findings import Severity
from console.telemetry.thresholds import RULES, Rule

# Levels beside those of `thresholds`: they need more than one sample of one node.
MORE_RULES: Final = (
    Rule("memory-falls", "seconds_to_empty", 120.0, 300.0, Severity.BLOCK, "memory runs out soon", hold_s=4.0),
    Rule("node-lost", "age_s", 10.0, 3.0, Severity.BLOCK, "no sample of the node"),
    Rule("deadline-near", "seconds_to_deadline", 300.0, 301.0, Severity.WARN, "the deadline is near"),
    # Drafts that are never accepted are the sign of garbled output (acceptance length 1.0).
    Rule(
        "drafts-rejected",
        "acceptance_length",
        1.05,
        1.2,
        Severity.WARN,
        "drafts are hardly ever accepted: is the output garbled?",
        hold_s=30.0,
    ),
)


@dataclass(frozen=True, slots=True)
class Happening:
    """An alarm raised by something that happens. lasts_s: it clears by itself; None: when its reason is over."""

    code: str
    severity: Severity
    message: str
    lasts_s: float | None = None


HAPPENINGS: Final = (
    Happening("rank-died", Severity.BLOCK, "a rank's container ended"),
    Happening("boot-failed", Severity.BLOCK, "the boot failed"),
    Happening("guard-tripped", Severity.BLOCK, "the memory guard killed a rank"),
    Happening("deadline-passed", Severity.WARN, "the deadline passed and the engine is not ready"),
    Happening("stalled", Severity.WARN, "several signs agree that nothing moves"),
    Happening("serving-bad", Severity.BLOCK, "the API's answer to a request is not sane"),
    Happening("ready", Severity.INFO, "the engine is ready", 60.0),
    Happening("rebooted", Severity.BLOCK, "a node was rebooted", 3600.0),
    Happening("xid", Severity.BLOCK, "the GPU driver reports an Xid", 600.0),
    Happening("driver-no-memory", Severity.WARN, "the GPU driver found no memory: it may be in pieces", 600.0),
    Happening("kernel-oom", Severity.BLOCK, "the kernel killed a process for memory", 600.0),
    Happening("rdma-errors", Severity.WARN, "error counters of an RDMA port grow", 60.0),
    Happening("guard-missing", Severity.WARN, "no memory guard runs beside a rank"),
    Happening("night", Severity.WARN, "the night's queue met a failure, or is over", 300.0),
    Happening("way-failed", Severity.WARN, "a way out of alarms does not work"),
)

# One is one too many; the others tick under ordinary congestion and count from this rate on, per second [inferred].
HARD_RDMA: Final = frozenset(
    {
        *("link_downed", "port_rcv_errors", "symbol_error", "link_error_recovery", "local_link_integrity_errors"),
        *("port_rcv_remote_physical_errors", "rx_icrc_encapsulated", "req_transport_retries_exceeded"),
        "local_ack_timeout_err",
    }
)
SOFT_RDMA: Final = 100

ORDER: Final = {Severity.INFO: 0, Severity.WARN: 1, Severity.BLOCK: 2}


@dataclass(frozen=True, slots=True)
class RuleChange:
    """What `[alarms.rules.<code>]` says; None leaves the default."""

    off: bool = False
    enter: float | None = None
    leave: float | None = None
    hold_s: float | None = None
    severity: Severity | None = None


@dataclass(frozen=True, slots=True)
class WaysPolicy:
    """`[alarms.ways]`: how alarms leave the console. terminal: `auto` chooses by the terminal; `off` sends none.
    command: argv that gets the alarm as JSON on standard input. webhook: https address that gets it as a POST."""

    bell: bool = True
    terminal: str = "off"
    command: tuple[str, ...] = ()
    webhook: str = ""


@dataclass(frozen=True, slots=True)
class AlarmPolicy:
    """`[alarms]`. tell_from: alarms below this severity are listed, not sent out."""

    enabled: bool = True
    tell_from: Severity = Severity.WARN
    rules: Mapping[str, RuleChange] = field(default_factory=dict)
    ways: WaysPolicy = field(default_factory=WaysPolicy)

    def change(self, code: str) -> RuleChange:
        return self.rules.get(code, RuleChange())

    def levels(self) -> tuple[Rule, ...]:
        """The level rules that are on, as the operator wants them. A `leave` on the wrong side of `enter` would turn
        the rule around, so it is moved with `enter` where only that was given."""
        return tuple(self._level(r) for r in (*RULES, *MORE_RULES) if self.enabled and not self.change(r.code).off)

    def _level(self, rule: Rule) -> Rule:
        said = self.change(rule.code)
        enter = rule.enter if said.enter is None else said.enter
        gap = rule.leave - rule.enter
        leave = said.leave if said.leave is not None else enter + gap
        if (leave - enter) * gap <= 0:
            leave = enter + gap
        return replace(
            rule,
            enter=enter,
            leave=leave,
            hold_s=rule.hold_s if said.hold_s is None else said.hold_s,
            severity=said.severity or rule.severity,
        )

    def happening(self, code: str) -> Happening | None:
        """None: it is off."""
        found = next((h for h in HAPPENINGS if h.code == code), None)
        if found is None or not self.enabled or self.change(code).off:
            return None
        severity = self.change(code).severity
        return found if severity is None else replace(found, severity=severity)

    def tells(self, severity: Severity) -> bool:
        return ORDER[severity] >= ORDER[self.tell_from]


CODES: Final = (*(r.code for r in RULES), *(r.code for r in MORE_RULES), *(h.code for h in HAPPENINGS))
