"""The ledger from the command line: compared, measured, noted, packed, exported, searched."""

from __future__ import annotations

import json
import os
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from console.base.errors import UsageError
from console.cli.cmd_boots import parse_since
from console.cli.cmd_measure import parse_levels
from tests.cli.conftest import MakeLab, Ran

RECIPE = """
engine = "vllm"
name = "small"
docker_image = "dsv41-flash:local"
model = "deepseek-ai/DeepSeek-V4.1-Flash"
required_nodes = 2
tensor_parallel_size = 2
args = ["--served-model-name", "s", "--gpu-memory-utilization", "{share}", "--max-num-seqs", "{seqs}",
        "--max-model-len", "4096"]
[env]
HF_HUB_OFFLINE = "1"
HF_TOKEN = "hf_abcdefghijklmnopqrstuvwxyz"
"""


def boots_folder() -> Path:
    return Path(os.environ["XDG_STATE_HOME"]) / "nightdeck" / "boots"


def write(folder: Path, share: str, seqs: str) -> None:
    (folder / "small").mkdir(parents=True, exist_ok=True)
    (folder / "small" / "recipe.toml").write_text(RECIPE.format(share=share, seqs=seqs))


@pytest.fixture
def small(lab: MakeLab, tmp_path: Path) -> Callable[..., Ran]:
    """Two boots of a recipe that changed in between; the second serves."""
    folder = tmp_path / "recipes"
    write(folder, "0.80", "8")
    console = lab(nodes=2, recipes=folder)

    def run(*argv: str) -> Ran:
        return console.run("--recipes", str(folder), *argv)

    first = run("launch", "small")
    assert first.code == 0, first.err + first.out
    run("stop", "--grace", "1")
    write(folder, "0.80", "16")
    second = run("launch", "small")
    assert second.code == 0, second.err + second.out
    return run


def test_two_boots_compared_measured_and_kept(small: Callable[..., Ran], tmp_path: Path) -> None:
    run = small
    measured = run("--json", "measure", "--concurrency", "1,3", "--repeats", "2", "--max-tokens", "16")
    assert measured.code == 0, measured.err
    one, three = measured.json["levels"]
    assert (one["concurrency"], one["rounds"], three["rounds"], one["failed_rounds"]) == (1, 2, 2, 0)
    assert three["total_tokens_per_s"]["min"] <= three["total_tokens_per_s"]["median"]
    assert three["stream_tokens_per_s"]["n"] == 6 and one["ttft_s"]["median"] > 0

    compared = run("--json", "diff")
    sections = {s["name"]: s["rows"] for s in compared.json["sections"]}
    assert sections["recipe"] == [{"name": "--max-num-seqs", "a": "8", "b": "16", "change": None}]
    assert [r["name"] for r in sections["arguments"]] == ["--max-num-seqs"]
    assert sections["environment"] == [] and sections["image"] == [] and sections["nodes"] == []
    assert {"weights", "http"} <= {r["name"] for r in sections["stages"]}
    assert {r["name"] for r in sections["lowest memory"]} == {"dgx1", "dgx2"}
    assert "1 at once: tokens/s in all" in {r["name"] for r in sections["speed"]}
    assert "--max-num-seqs 8 -> 16" in run("diff", "1", "2").out

    boot = boots_folder() / run("--json", "boots", "last").json["boots"][0]["id"]
    telemetry = [json.loads(line) for line in (boot / "telemetry.jsonl").read_text().splitlines()]
    assert {row["node"] for row in telemetry} == {"dgx1", "dgx2"}
    assert all(row["mem_available"][0] <= row["mem_available"][1] for row in telemetry)
    # The boot before was packed when this one opened; both can be read.
    before = next(boots_folder().glob("b0001-*"))
    assert sorted(p.name for p in before.glob("rank*.log*")) == ["rank0.log.gz", "rank1.log.gz"]
    assert sorted(p.name for p in boot.glob("rank*.log*")) == ["rank0.log", "rank1.log"]
    assert run("diagnose", str(before)).out.startswith("healthy")

    assert run("boots", "note", "1", "the", "first").code == 0
    assert run("boots", "star", "2").code == 0  # also while it runs
    rows = run("--json", "boots", "--recipe", "small", "--since", "1h").json["boots"]
    assert [(b["number"], b["note"], b["starred"]) for b in rows] == [(2, None, True), (1, "the first", False)]
    assert run("--json", "boots", "--state", "stopped").json["boots"][0]["number"] == 1
    assert run("--json", "boots", "--since", "2099-01-01").json["boots"] == []

    archive = tmp_path / "boot.tar.gz"
    assert run("boots", "export", "2", "-o", str(archive)).code == 0
    with tarfile.open(archive) as tar:
        texts = {m.name.split("/")[1]: tar.extractfile(m).read() for m in tar}  # type: ignore[union-attr]
    assert {"boot.json", "events.jsonl", "plan.json", "facts.json", "recipe.toml", "rank0.log"} <= texts.keys()
    assert not any(b"hf_abcdefghijkl" in data for data in texts.values())
    assert run("boots", "export", "2", "-o", str(archive)).code == 2  # never over a file that is there

    served = run("bisect", "1", "2")
    assert served.code == 2 and "boot 2 served, so nothing broke it" in served.err
    begun = run("--json", "bisect", "1", "2", "--by-hand").json
    assert begun["culprit"] == "flag --max-num-seqs" and begun["recipe"] is None
    assert run("bisect", "1", "2", "--by-hand").code == 0  # one that has found what it looked for is not under way
    assert "it is: flag --max-num-seqs\n  --max-num-seqs 8 -> 16\n" in run("bisect").out
    assert run("bisect", "reset").code == 0 and run("bisect").code == 2

    assert run("boots", "prune", "--keep", "1").out.startswith("0 removed")  # both are marked
    run("boots", "unstar", "2")
    assert run("boots", "rm", "1").code == 0
    assert [b["number"] for b in run("--json", "boots").json["boots"]] == [2]


def test_since_and_levels_in_words() -> None:
    assert parse_since("8h", 100_000.0) == 100_000.0 - 28_800
    assert parse_since("2026-09-18T22:00+02:00", 0) == 1_789_761_600.0
    for bad in ("yesterday", "8", "8y"):
        with pytest.raises(UsageError, match="is no time"):
            parse_since(bad, 0.0)
    assert (parse_levels("1,2,4"), parse_levels("1-3")) == ((1, 2, 4), (1, 2, 3))
    for bad in ("", "0", "a", "4-1", "1000"):
        with pytest.raises(UsageError):
            parse_levels(bad)
