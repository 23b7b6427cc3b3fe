"""Plans as people and scripts see them: whole, copyable, without secrets."""

from __future__ import annotations

import json
import subprocess

from console.plan.folded import folded
from console.plan.masked import command_lines, visible
from console.plan.to_json import plan_json
from tests.plan.build import all_facts, plan_of, safe, seed, sparks, tiny

SECRET = "s3cr3t-with-'quote and spaces"


def read_by_a_shell(text: str) -> tuple[str, ...]:
    """The words that a POSIX shell makes of a command."""
    script = f"set -- {text}\nprintf '%s\\0' \"$@\""
    done = subprocess.run(["sh", "-c", script], capture_output=True, check=True, timeout=20)
    return tuple(done.stdout.decode().split("\0")[:-1])


def test_the_folded_command_is_the_heads_and_names_all_differences() -> None:
    plan = plan_of(seed(), sparks())
    lines = folded(plan)
    command = "\n".join(line for line in lines if not line.startswith("#"))
    assert read_by_a_shell(command) == plan.ranks[0].argv
    text = "\n".join(lines)
    assert lines[0] == "# dsv41-flash-8x-b11: 8 ranks, head dgx1"
    for part in ("env VLLM_HOST_IP", "5 dgx6: 10.0.0.6", "--headless", "0 dgx1: --host 0.0.0.0 --port 8000"):
        assert part in text
    assert "NOT EXPLAINED" not in text
    assert "  dsv41-flash:local \\" in lines


def test_each_ranks_command_can_be_copied() -> None:
    plan = plan_of(safe(title='it\'s $(id) `id` "x" \\\\ !'), sparks())
    for rank in plan.ranks[:3]:
        assert read_by_a_shell("\n".join(command_lines(plan, rank))) == rank.argv


def test_secrets_are_in_nothing_that_is_shown() -> None:
    recipe = tiny(
        args=("--api-key", SECRET, "--served-model-name", "tiny"), env={"HF_TOKEN": SECRET, "COPY": f"x{SECRET}"}
    )
    plan = plan_of(recipe, sparks())
    assert SECRET in plan.secrets
    assert any(SECRET in word for word in plan.ranks[0].argv)  # the node gets it
    shown = json.dumps(plan_json(plan)) + "\n".join(folded(plan)) + repr(plan.findings)
    assert "s3cr3t" not in shown and "***" in shown


def test_json_has_the_promised_fields() -> None:
    plan = plan_of(safe(), sparks())
    data = json.loads(json.dumps(plan_json(plan)))
    assert data["recipe"] == "dsv41-flash-8x-safe" and data["boot_label"] == "dsv41-flash-8x-safe-b11"
    assert len(data["ranks"]) == 8
    rank = data["ranks"][3]
    assert rank["rank"] == 3 and rank["node"] == "dgx4" and rank["container"] == "nd-dsv41-flash-8x-safe-b11-r3"
    assert rank["argv"] == list(plan.ranks[3].argv) and rank["engine_argv"] == list(plan.ranks[3].engine_argv)
    assert rank["env"]["VLLM_HOST_IP"] == "10.0.0.4"
    assert [d["what"] for d in data["differs"]][-1] == "env VLLM_HOST_IP" and data["unexplained"] == []
    assert set(data["memory"]) == {f"dgx{i}" for i in range(1, 9)}
    assert data["memory"]["dgx1"]["total_bytes"] == 130_663_231_488 and data["memory"]["dgx1"]["total_why"] is None
    assert {"code", "severity", "node", "observed", "expected", "message", "remedy"} == set(data["findings"][0])


def test_a_plan_without_facts_is_still_whole() -> None:
    data = plan_json(plan_of(tiny(), sparks(), {}))
    memory = data["memory"]["dgx1"]
    assert memory["total_bytes"] is None and memory["total_why"] == "the node was not asked yet"
    assert "facts-unknown" in [f["code"] for f in data["findings"]]


def test_one_rank_has_nothing_that_differs() -> None:
    recipe = tiny(required_nodes=1, tensor_parallel_size=1)
    lines = folded(plan_of(recipe, sparks(), all_facts(sparks())))
    assert lines[0] == "# tiny-cpu-b11: 1 rank, head dgx1" and not [x for x in lines if "the other" in x]


HIDDEN = "$(id)\nB\t\x1b[31m\\n'x\u202e7\x0701"


def test_what_a_screen_hides_is_written_out_and_reads_back() -> None:
    recipe = tiny(args=("--served-model-name", "tiny"), env={"A": HIDDEN})
    plan = plan_of(recipe, sparks())
    text = "\n".join(line for line in folded(plan) if not line.startswith("#"))
    assert r"$'A=$(id)\nB\t\033[31m\\n\'x\342\200\2567\00701'" in text
    assert text.replace("\n", "").isprintable()
    done = subprocess.run(
        ["bash", "-c", f"set -- {text}\nprintf '%s\\0' \"$@\""], capture_output=True, check=True, timeout=20
    )
    assert tuple(done.stdout.decode().split("\0")[:-1]) == plan.ranks[0].argv


def test_plain_text_is_shown_as_it_is() -> None:
    assert [visible(t) for t in ("it's $HOME", "ü 模", "a\nb")] == ["it's $HOME", "ü 模", "$'a\\nb'"]
