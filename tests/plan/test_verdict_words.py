"""The preflight's verdict for people says what may be done, and what was measured stands beside its limit."""

from __future__ import annotations

from console.base.absent import Absent
from console.base.findings import Finding, Severity
from console.plan.preflight import in_words, verdict
from console.plan.preflight_load import Loaded, measured

B, W, INFO = Severity.BLOCK, Severity.WARN, Severity.INFO


def found(*rows: tuple[str, Severity]) -> list[Finding]:
    return [Finding(code, severity, f"{code} on a node", node=f"dgx{n}") for n, (code, severity) in enumerate(rows)]


def test_a_verdict_says_whether_it_may_launch_and_never_that_anything_is_ready() -> None:
    assert in_words([]) == in_words(found(("swap-on", INFO))) == "may launch"
    assert in_words(found(("a", W))) == "may launch, with 1 warning"
    two = found(("image-missing", B), ("image-missing", B), ("port-busy", B), ("a", W))
    assert in_words(two) == "not yet: 2 blocks (image-missing, port-busy)"
    assert in_words(two, ["port-busy"]) == "not yet: 1 block (image-missing)"
    lifted = ["image-missing", "port-busy"]
    assert in_words(two, lifted) == (
        "may launch, with 1 warning and 2 blocks overridden by the recipe (image-missing, port-busy)"
    )
    for findings, override in (([], ()), (two, ()), (two, lifted)):  # the words for scripts are what they were
        word = verdict(findings, override)
        assert word in ("ready", "risky", "blocked")
        assert in_words(findings, override).startswith("not yet") == (word == "blocked")


def test_what_was_measured_has_a_limit_or_a_reason() -> None:
    loads = {f"n{i}": Loaded(80.0 + i, 2400.0, 41.5, "NVIDIA GB10") for i in range(3)}
    rows = measured(
        {**loads, "n3": Absent("no module named torch"), "n4": Loaded(50.0, Absent("no sample"), 80.0, "X")}
    )
    assert rows["n1"] == {
        "name": "NVIDIA GB10",
        "tflops": 81.0,
        "tflops_least": 60.375,  # three quarters of the middle of four, 80.5
        "sm_mhz": 2400.0,
        "sm_mhz_least": 1000.0,
        "power_w": 41.5,
        "power_w_least": 20.0,
        "why": None,
    }
    assert rows["n3"]["tflops"] is None and rows["n3"]["why"] == "no module named torch"
    assert rows["n4"]["sm_mhz"] is None and rows["n4"]["why"] == "no sample" and rows["n4"]["tflops_least"] == 60.375
    assert measured({"a": Loaded(40.0, 1500.0, 60.0, "Y")})["a"]["tflops_least"] is None  # nothing to compare it with
