"""Wrong words, missing files, full disks, closed streams, odd locales: a sentence and an exit code, never a trace."""

from __future__ import annotations

import inspect
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from console.cli.main import ASYNC, SYNC, command
from console.cli.out import Out
from tests.cli.conftest import RECIPE, ROOT, MakeLab, Ran

Nightdeck = Callable[..., Ran]


def shell(script: str, **env: str) -> Ran:
    """A line of sh in which "$@" is the command."""
    done = subprocess.run(
        ["sh", "-c", script, "sh", sys.executable, "-m", "console"],
        cwd=ROOT,
        # Buffered as for a user: what is held as the interpreter ends is part of what is tried here.
        env={**{k: v for k, v in os.environ.items() if k != "PYTHONUNBUFFERED"}, **env},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=60,
    )
    return Ran(done.returncode, done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace"))


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (["nonsense"], "invalid choice"),
        (["launch"], "required: NAME"),
        (["boots", "--nope"], "usage: nightdeck boots "),
        (["cluster", "check", "--nope"], "usage: nightdeck cluster check "),
        (["--nope", "boots"], "usage: nightdeck [options] "),
        (["status"], "there is no cluster file"),
        (["--cluster", "nope.toml", "status"], "nope.toml: no such file"),
        (["--cluster", "/dev/null", "status"], "must be a regular file"),
        (["--cluster", "/", "status"], "found a folder"),
        (["--recipes", "nope", "recipes"], "no folder nope"),
        (["recipes", "dsv41-flsh"], "dsv41-flash-8x"),
        (["--cluster", "local", "launch", "/dev/null"], "/dev/null"),
        (["--cluster", "local", "launch", "/nope/x.toml"], "no such file"),
        (["--cluster", "local", "plan", RECIPE, "--nodes", "-3"], "1 or more"),
        (["stop", "--grace", "nan"], "0 to 86400 seconds"),
        (["stop", "--grace", "-1"], "0 to 86400 seconds"),
        (["logs", "--tail", "0"], "1 or more"),
        (["--speed", "nan", "status"], "above 0"),
        (["--lab-nodes", "0", "status"], "1 or more"),
        (["boots", "99"], "no boot 99"),
        (["cluster", "init", "dgx[1-"], "not closed"),
        (["cluster", "init", "dgx[1-100000000]"], "more than 512"),
        ([], "there is no cluster file"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_wrong_use_ends_with_2_and_says_what(nightdeck: Nightdeck, argv: list[str], said: str, terminal: None) -> None:
    ran = nightdeck(*argv)
    assert ran.code == 2
    assert said in ran.err and ran.out == ""


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """The console's own check for a terminal is not what is looked at here."""
    from console.cli import main

    monkeypatch.setattr(main, "_need_terminal", lambda: None)


def test_the_console_needs_a_terminal() -> None:
    for words in ("--cluster local", "lab"):
        ran = shell(f'"$@" {words}')
        assert ran.code == 2 and "the console needs a terminal" in ran.err


@pytest.mark.parametrize(
    "host", ["$(touch pwned)", "`touch pwned`", "a;touch pwned", "-oProxyCommand=touch pwned", "a\nb", "a b", "a'b\""]
)
def test_hostile_host_names_are_refused_by_line(nightdeck: Nightdeck, tmp_path: Path, host: str) -> None:
    file = tmp_path / "with space" / "cluster.toml"
    file.parent.mkdir()
    file.write_text(f'name = "x"\n[[nodes]]\nhost = {json.dumps(host)}\n[[nodes]]\nhost = {json.dumps(host + "2")}\n')
    ran = nightdeck("--cluster", str(file), "status")
    assert ran.code == 2
    assert ran.err.startswith(f"nightdeck: {file}:3:") and f"\n{file}:5:" in ran.err
    assert not list(tmp_path.rglob("pwned"))


def test_a_full_or_closed_stream_is_an_end_and_not_a_trace() -> None:
    full = shell('"$@" recipes >/dev/full')
    assert full.code == 1 and "No space left" in full.err and "Traceback" not in full.err
    full = shell('"$@" --json recipes >/dev/full')
    assert full.code == 1 and "Traceback" not in full.err
    assert shell('"$@" recipes >&-').code == 0
    silent = shell('"$@" recipes 2>&-')
    assert silent.code == 0 and RECIPE in silent.out
    assert shell('"$@" --cluster nope status 2>/dev/full').code == 2


def test_a_locale_without_utf8_costs_signs_and_not_the_answer() -> None:
    ascii_only = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "PYTHONIOENCODING": "ascii"}
    ran = shell(f'"$@" --cluster lab plan {RECIPE} --offline', **ascii_only)
    assert ran.code == 0, ran.err
    assert "Traceback" not in ran.err and ran.out.isascii()
    text = shell('"$@" --json recipes', **ascii_only)
    assert RECIPE in [r["name"] for r in json.loads(text.out)["recipes"]]


def test_no_home_and_a_narrow_terminal_do_not_matter() -> None:
    assert RECIPE in shell('unset HOME XDG_CONFIG_HOME XDG_STATE_HOME; COLUMNS=1 "$@" recipes').out


def test_state_that_cannot_be_written_is_said_and_does_not_stop_a_launch(lab: MakeLab, tmp_path: Path) -> None:
    file = tmp_path / "not a folder"
    file.write_text("")
    console = lab()
    os.environ["NIGHTDECK_STATE_DIR"] = str(file / "state")
    try:
        ran = console.run("--json", "launch", RECIPE, "--nodes", "2")
        assert ran.code == 0, ran.err
        assert ran.deployment["state"] == "ready"
        assert "this boot is not kept on disk" in ran.err
        assert console.run("--json", "status").deployment["state"] == "ready"
        assert console.run("--json", "stop", "--grace", "1").json["result"] == "stopped"
        ledger = console.run("boots")
        assert ledger.code == 1 and "Not a directory" in ledger.err
    finally:
        del os.environ["NIGHTDECK_STATE_DIR"]


HOSTILE = "a b;touch pwned;$(touch pwned)`touch pwned`'\"\\ &|<>*?{x,y}!#~%é"


def test_shell_signs_in_every_field_of_a_recipe_are_only_text(lab: MakeLab, tmp_path: Path) -> None:
    folder = tmp_path / "shelf with space" / "odd"
    folder.mkdir(parents=True)
    lines = [
        'engine = "vllm"',
        f"name = {json.dumps(HOSTILE)}",
        'docker_image = "dsv41-flash:local"',
        'model = "deepseek-ai/DeepSeek-V4.1-Flash"',
        "required_nodes = 2",
        "tensor_parallel_size = 2",
        "pipeline_parallel_size = 1",
        'distributed_backend = "mp"',
        'shm_size = "1gb"',
        "args = [" + ", ".join(json.dumps(a) for a in ("--served-model-name", quoted(HOSTILE))) + "]",
        "[env]",
        f"ODD = {json.dumps(HOSTILE)}",
        "[[extra_mounts]]",
        'host = "~/odd $(touch pwned);`touch pwned`"',
        'container = "/odd $(touch pwned)"',
    ]
    (folder / "recipe.toml").write_text("\n".join(lines) + "\n")
    console = lab(recipes=folder.parent)
    shown = console.run("--recipes", str(folder.parent), "--json", "recipes", "odd")
    assert shown.code == 0, shown.err
    assert shown.json["recipes"][0]["args"] == ["--served-model-name", HOSTILE]
    ran = console.run("--json", "launch", str(folder / "recipe.toml"), "--override", "model-missing")
    assert ran.code in (0, 1), ran.err
    assert "boot_opened" in ran.out, f"it was to be launched: {ran.err}"
    boot = console.run("--json", "status").deployment
    assert boot["served_name"] == HOSTILE and boot["title"] == HOSTILE
    assert console.run("stop", "--grace", "1").code == 0
    assert not list(tmp_path.rglob("pwned")) and not (Path(ROOT) / "pwned").exists()


def quoted(word: str) -> str:
    """The word as a fragment of a shell line, which `args` are."""
    return "'" + word.replace("'", "'\\''") + "'"


def test_every_command_of_the_table_is_there() -> None:
    for name, place in {**ASYNC, **SYNC}.items():
        assert inspect.iscoroutinefunction(command(place)) is (name in ASYNC), name


def test_json_steers_no_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    """Words of nodes: a C1 sequence that clears the screen, and marks that turn the direction."""
    said = "\x9b2J caf\u00e9 \x7f\u202eevil\u2066\x1b[2J \u2028"
    Out(as_json=True).data({"why": said})
    shown = capsys.readouterr().out
    assert json.loads(shown) == {"why": said} and "café" in shown
    assert [c for c in shown if not c.isprintable() and c != "\n"] == []


def test_a_figure_that_is_not_finite_is_null(capsys: pytest.CaptureFixture[str]) -> None:
    Out(as_json=True).data({"a": float("nan"), "b": [1.5, float("inf")], "c": {"d": 1}})
    assert json.loads(capsys.readouterr().out) == {"a": None, "b": [1.5, None], "c": {"d": 1}}


@pytest.mark.parametrize(
    "argv", [["recipes"], ["boots"], ["alarms"], ["--cluster", "local", "plan", "tiny-cpu", "--nodes", "1"]]
)
def test_wrong_settings_are_told_by_every_command_once_and_refused_by_none(
    argv: list[str], nightdeck: Nightdeck
) -> None:
    folder = Path(os.environ["XDG_CONFIG_HOME"]) / "nightdeck"
    folder.mkdir(parents=True)
    for text, said in (
        ("theme = 3", "theme: must be a text"),
        ("themme = 1", "unknown setting"),
        ("x = = ", "not TOML"),
    ):
        (folder / "settings.toml").write_text(text)
        ran = nightdeck(*argv)
        assert ran.code == 0 and ran.err.count(said) == 1, ran.err
