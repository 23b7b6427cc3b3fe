"""Every command's help: each option in words, examples that the parser takes, nothing wider than a small terminal."""

from __future__ import annotations

import argparse
import re
import shlex
from collections.abc import Iterator

import pytest

from console.cli.parser import build_parser
from tests.cli.conftest import ROOT


def walk(parser: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    yield parser
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for sub in action.choices.values():
                yield from walk(sub)


PARSERS = {p.prog: p for p in walk(build_parser())}
NAMES = [name for name in PARSERS if name not in ("nightdeck cluster", "nightdeck image")]


@pytest.mark.parametrize("columns", ["20", "80", "200"])
def test_help_fits_eighty_columns(columns: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    wide = [line for p in PARSERS.values() for line in p.format_help().splitlines() if len(line) > 80]
    assert wide == []


@pytest.mark.parametrize("name", PARSERS)
def test_each_option_has_a_sentence_and_each_value_its_default(name: str) -> None:
    for action in PARSERS[name]._actions:
        if isinstance(action, (argparse._HelpAction, argparse._SubParsersAction)) or action.help == argparse.SUPPRESS:
            continue
        words = f"{name} {'/'.join(action.option_strings) or action.dest}: {action.help}"
        assert action.help and len(action.help.split()) >= 3, words
        if action.option_strings and action.nargs != 0 and "with --grep" not in words and "lab --set" not in words:
            assert "default" in action.help, words
        if action.option_strings and action.type is not None and action.default not in (None, argparse.SUPPRESS):
            shown = f"{action.default:g}" if isinstance(action.default, float) else str(action.default)
            assert f"(default: {shown})" in action.help, words


@pytest.mark.parametrize("name", NAMES)
def test_examples_are_commands_that_the_parser_takes(name: str) -> None:
    told = PARSERS[name].format_help()
    lines = [line[2:] for line in told.splitlines() if line.startswith("  ") and line[2:3].strip()]
    commands = [line[line.index("nightdeck") :] for line in lines if line.startswith(("nightdeck", "docker logs"))]
    assert commands, told
    for command in commands:
        words = shlex.split(command.partition(" > ")[0])
        build_parser().parse_args(words[1:])
    if name != "nightdeck":
        assert any(command.startswith(name) for command in commands)


@pytest.mark.parametrize("file", ["README.md", *(f"docs/{p.name}" for p in (ROOT / "docs").glob("*.md"))])
def test_commands_in_the_documents_are_ones_that_the_parser_takes(
    file: str, capsys: pytest.CaptureFixture[str]
) -> None:
    inside = re.findall(r"^```[a-z]*\n(.*?)^```", (ROOT / file).read_text(), re.M | re.S)
    lines = [line.strip() for block in inside for line in block.splitlines() if line.startswith("nightdeck")]
    quoted = re.findall(r"`(?:\.venv/bin/)?(nightdeck [^`\n]+)`", (ROOT / file).read_text())
    for line in [*lines, *(q for q in quoted if " …" not in q)]:
        words = shlex.split(re.split(r" > |\s#", line)[0])
        try:
            build_parser().parse_args(words[1:])
        except SystemExit as end:
            # A sentence may name a command alone, without what it is about.
            bare = line in quoted and "arguments are required" in capsys.readouterr().err
            assert end.code == 0 or bare, f"{file}: {line}"
