"""What a node's kernel and its files say: a note where the boot is well, a cause where it is not; what is over is over."""
# ruff: noqa: E501 lines of logs are kept whole, as they are printed

from __future__ import annotations

import pytest

from console.enginelog.causes_model import Verdict
from console.enginelog.diagnose import diagnose
from console.enginelog.signatures import SIGNATURES, matches
from console.enginelog.signatures_model import Kind, filled
from tests.enginelog.evidence_of import Boot

LOCKED = "[ 4757.010308] watchdog: BUG: soft lockup - CPU#11 stuck for 94s! [VLLM::Worker_TP:4432]"
SILENT = "[  185.330941] nfs: server 10.2.80.41 not responding, still trying"
BACK = "[  190.112004] nfs: server 10.2.80.41 OK"
OTHER = "[  191.000000] nfs: server nas-2 not responding, timed out"


@pytest.mark.parametrize(("line", "cls"), [(LOCKED, "host_wedged"), (SILENT, "stale_mount")])
def test_a_boot_that_is_well_has_a_note(line: str, cls: str) -> None:
    boot = Boot()
    boot.ranks[1]["kernel"] = [line]
    found = boot.diagnosis()
    assert (found.verdict, found.cause) == (Verdict.HEALTHY, None)
    assert [(c.cls, c.rank, c.evidence) for c in found.others] == [(cls, 1, (line,))]


def test_a_server_that_answers_again_is_not_worth_a_word() -> None:
    boot = Boot()
    boot.ranks[1]["kernel"] = [SILENT, BACK]
    assert boot.diagnosis().others == ()
    boot.ranks[1]["kernel"] = [SILENT, OTHER, BACK]
    assert [c.evidence for c in boot.diagnosis().others] == [(OTHER,)]


@pytest.mark.parametrize("before", [0, 390, 450, 4000])
def test_what_is_telling_may_stand_far_behind_in_its_line(before: int) -> None:
    boot = Boot().loading().end(1, 137, "01:53:00")
    killed = "Out of memory: Killed process 30123 (VLLM::Worker) total-vm:1kB, anon-rss:2kB, oom_score_adj:0"
    boot.ranks[1]["kernel"] = [f"{'x' * before} {killed}"]
    cause = boot.diagnosis().cause
    assert cause is not None and cause.rank == 1
    assert (cause.cls == "host_oom") is (before < 2000)


@pytest.mark.parametrize(
    ("lines", "told"),
    [
        ((SILENT,), SILENT),
        ((SILENT, BACK), None),
        ((SILENT, BACK, SILENT), SILENT),
        ((SILENT, OTHER, BACK), OTHER),
        ((BACK,), None),
    ],
)
def test_a_kernels_log_by_itself(lines: tuple[str, ...], told: str | None) -> None:
    found = diagnose([("dmesg", None, lambda: ["\n".join((*lines, "")).encode()])])
    assert (found.cause.evidence[0] if found.cause else None) == told


def test_a_kernel_line_does_not_say_why_another_thing_failed() -> None:
    boot = Boot().loading().end(4, 1, "01:53:00")
    boot.ranks[4]["kernel"] = [LOCKED]
    boot.add(4, "01:52:59", "(Worker_TP4 pid=9) ERROR 11-30 {clock} [m.py:9] Traceback (most recent call last):",
             "(Worker_TP4 pid=9) ERROR 11-30 {clock} [m.py:9] torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.")  # fmt: skip
    cause = boot.diagnosis().cause
    assert cause is not None and cause.cls == "gpu_oom"


@pytest.mark.parametrize(
    ("line", "file"),
    [
        ("[2026-05-02 07:14:11 TP5] Corrupted safetensors file detected: /models/v4/model-00003-of-00046.safetensors: SafetensorError: Error while deserializing header: incomplete metadata", "/models/v4/model-00003-of-00046.safetensors"),
        ("OSError: Unable to load weights from pytorch checkpoint file for '/models/v4/pytorch_model-00002-of-00005.bin' at '/models/v4/pytorch_model-00002-of-00005.bin'.", "/models/v4/pytorch_model-00002-of-00005.bin"),
        ("FileNotFoundError: No such file or directory: \"/models/v4/model-00007-of-00046.safetensors\"", "/models/v4/model-00007-of-00046.safetensors"),
    ],
)  # fmt: skip
def test_the_file_of_the_weights_is_named_where_the_log_names_it(line: str, file: str) -> None:
    raw = f"Traceback (most recent call last):\n{line.partition('] ')[2] if line[0] == '[' else line}\n"
    cause = diagnose([("rank3.log", 3, lambda: [raw.encode()])]).cause
    assert cause is not None and cause.cls == "damaged_weights"
    assert file in cause.sentence and file in cause.action


def test_an_unnamed_shard_is_said_to_be_unnamed() -> None:
    raw = b"Traceback (most recent call last):\nsafetensors_rust.SafetensorError: Error while deserializing header: incomplete metadata, file not fully covered\n"
    cause = diagnose([("rank3.log", 3, lambda: [raw])]).cause
    assert cause is not None and "the log does not name it" in cause.action


def test_an_error_known_by_its_place_alone_claims_no_more_than_the_place() -> None:
    for place, cls in (("vllm/config/model.py", "config_rejected"), ("sglang/srt/models/x.py", "model_code_error")):
        raw = f'Traceback (most recent call last):\n  File "/x/{place}", line 9, in f\nAttributeError: no such thing\n'
        cause = diagnose([("rank0.log", 0, lambda raw=raw: [raw.encode()])]).cause  # type: ignore[misc]
        assert cause is not None and cause.cls == cls
        assert "AttributeError: no such thing" in cause.sentence
        assert "{" not in cause.sentence and "does not know" not in cause.sentence


@pytest.mark.parametrize("xid", [13, 31, 43, 79, 119, 154, 999])
def test_what_the_driver_reports(xid: int) -> None:
    line = f"Sep 18 23:05:30 dgx1 kernel: NVRM: Xid (PCI:000f:01:00): {xid}, pid=1234, name=VLLM::Worker, Ch 00000008"
    signature, values = matches(line)[0]
    assert signature.cls == "kernel_runtime_failure"
    assert (str(xid) in filled(signature.sentence, values)) == (xid != 999)


def test_every_action_that_names_what_was_caught_can_be_filled() -> None:
    for signature in SIGNATURES:
        if "{" in signature.action and signature.kind is not Kind.BENIGN:
            names = {name.rstrip("0123456789"): "x" for name in signature.pattern.groupindex}
            assert "?" not in filled(signature.action, names) and "{" not in filled(signature.action, names)
