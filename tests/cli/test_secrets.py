"""Planted in a recipe's environment, arguments, comments and URLs, and in what the engine prints: in clear nowhere."""

from __future__ import annotations

import os
import tarfile
from pathlib import Path

from tests.cli.conftest import MakeLab, Ran

PLANTED = {
    "token by look": "hf_Abcdefghijklmnopqrstuvwxyz012345",
    "token by name": "plain-words-that-look-like-nothing",
    "key of the API": "another-plain-thing-4711",
    "password in a URL": "s3cr3t-pass",
    "token as a URL's user": "0123456789abcdef0123456789abcdef",
    "in a comment": "sk-commentcommentcomment99",
    "a webhook": "T0AAAAAAA/B0BBBBBBB/xyzxyzxyzxyzxyzxyz",
    "in a query": "q-u-e-r-y-s-e-c-r-e-t",
    "a variable in a comment": "unremarkable-but-named",
}
WEBHOOK = "https://hooks.slack.com/services/" + PLANTED["a webhook"]
RECIPE = f"""
# for the monitor: sk-commentcommentcomment99, told by https://hooks.slack.com/services/{PLANTED["a webhook"]}
# WANDB_API_KEY={PLANTED["a variable in a comment"]} before May
engine = "vllm"
name = "small"
docker_image = "dsv41-flash:local"
model = "deepseek-ai/DeepSeek-V4.1-Flash"
required_nodes = 2
tensor_parallel_size = 2
args = ["--served-model-name", "s", "--max-model-len", "4096", "--api-key {PLANTED["key of the API"]}",
        "--gpu-memory-utilization", "0.80", "--otlp-traces-endpoint",
        "https://{PLANTED["token as a URL's user"]}@otlp/v1"]
[env]
HF_HUB_OFFLINE = "1"
HF_TOKEN = "{PLANTED["token by look"]}"
MY_SECRET = "{PLANTED["token by name"]}"
METRICS_URL = "https://ann:{PLANTED["password in a URL"]}@metrics.example/push?token={PLANTED["in a query"]}&job=x"
"""


def in_clear(data: bytes) -> list[str]:
    return [what for what, value in PLANTED.items() if value.encode() in data]


def found_in(folder: Path) -> dict[str, list[str]]:
    found = {}
    for file in folder.rglob("*"):
        if file.is_file() and (hits := in_clear(file.read_bytes())):
            found[str(file)] = hits
    return found


def test_no_secret_is_anywhere_in_clear(lab: MakeLab, tmp_path: Path) -> None:
    folder = tmp_path / "recipes"
    (folder / "small").mkdir(parents=True)
    (folder / "small" / "recipe.toml").write_text(RECIPE)
    console = lab(nodes=2, recipes=folder)
    said: list[tuple[tuple[str, ...], Ran]] = []

    def run(*argv: str) -> Ran:
        ran = console.run("--recipes", str(folder), *argv)
        said.append((argv, ran))
        return ran

    for words in (
        ("recipes", "small"), ("--json", "recipes", "small"), ("plan", "small", "--full"),
        ("--json", "plan", "small"), ("--json", "preflight", "small"),
    ):  # fmt: skip
        run(*words)
    launched = run("--json", "launch", "small", "--note", f"with {PLANTED['token by look']}")
    assert launched.code == 0, launched.err
    for words in (
        ("--json", "status"), ("--json", "logs"),
        ("launch", "small"), ("stop", "--grace", "1"), ("--json", "boots"), ("boots", "1"), ("--json", "boots", "1"),
        ("--json", "diff", "small"), ("logs", "1"), ("logs", "1", "--grep", "args"),
        ("replay", "1", "--events"), ("--json", "replay", "1"), ("boots", "export", "1", "-o", str(tmp_path / "x.tgz")),
        ("report", "--since", "1h", "-o", str(tmp_path / "report")), ("boots", "note", "1", WEBHOOK),
        ("boots", "no-such-" + PLANTED["token by look"]), ("diagnose", str(tmp_path / PLANTED["in a comment"])),
    ):  # fmt: skip
        run(*words)
    for argv, ran in said:
        assert not in_clear((ran.out + ran.err).encode()), argv
    assert {words: ran.err for words, ran in said if "Traceback" in ran.err} == {}
    state = Path(os.environ["XDG_STATE_HOME"])
    with tarfile.open(tmp_path / "x.tgz") as tar:
        names = tar.getnames()
        for member in tar.getmembers():  # `filter=` of extractall is of Python 3.11.4
            assert member.isfile() or member.isdir(), member.name
            assert not member.name.startswith("/") and ".." not in Path(member.name).parts, member.name
        tar.extractall(tmp_path / "unpacked")
    assert any(name.endswith("rank0.log") for name in names) and any(name.endswith("plan.json") for name in names)
    everywhere = {**found_in(tmp_path / "unpacked"), **found_in(state), **found_in(tmp_path / "report")}
    assert everywhere == {}
