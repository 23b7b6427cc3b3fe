"""`recipes` beside broken files, and `report`, which writes only where it is told to."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from console.cli import cmd_report
from console.cli.cmd_report import report
from console.cli.out import Out
from console.cli.parser import build_parser
from console.files.boot_index import BootIndex
from console.files.journal import Journal
from console.services.report import markdown, report_of_night
from tests.cli.conftest import Ran
from tests.services import nights

Nightdeck = Callable[..., Ran]
GOOD = 'engine = "vllm"\nname = "x"\ndocker_image = "i"\nmodel = "m"\nrequired_nodes = 1\nargs = []\n'


def test_good_recipes_are_listed_beside_broken_ones_and_the_code_says_so(nightdeck: Nightdeck, tmp_path: Path) -> None:
    for name, text in (("bad", GOOD.replace("= 1", '= "1"')), ("worse", "engine = \n")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "recipe.toml").write_text(text)
    ran = nightdeck("--recipes", str(tmp_path), "recipes")
    assert ran.code == 2 and "dsv41-flash-8x-safe" in ran.out and "bad" not in ran.out
    assert "2 recipe files cannot be used:" in ran.err
    assert f"  {tmp_path}/bad/recipe.toml:5:" in ran.err and f"  {tmp_path}/worse/recipe.toml:1:" in ran.err
    told = nightdeck("--recipes", str(tmp_path), "--json", "recipes")
    assert told.code == 2 and "dsv41-flash-8x-safe" in [r["name"] for r in told.json["recipes"]]
    assert {(Path(e["file"]).parent.name, e["line"]) for e in told.json["errors"]} == {("bad", 5), ("worse", 1)}
    assert nightdeck("recipes").code == 0


class Kept:
    """What `report` asks of the world."""

    def __init__(self, root: Path) -> None:
        journal = Journal(root / "boots")
        self.night = nights.night(journal)
        self.state_folder = root
        self.index = BootIndex(journal)

    def ledger(self) -> Kept:
        return self


@pytest.fixture
def run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., tuple[int, str]]:
    kept = Kept(tmp_path / "state")
    monkeypatch.setattr(cmd_report, "report_since", lambda index, _since, now: report_of_night(index, kept.night, now))
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")

    def told(*words: str) -> tuple[int, str]:
        out = Out(as_json=False)
        code = report(build_parser().parse_args(["report", "--since", "8h", *words]), kept, out)  # type: ignore[arg-type]
        out.flush()
        return code, capsys.readouterr().out

    return told


def test_a_report_is_printed_and_nothing_is_written(run: Callable[..., tuple[int, str]], tmp_path: Path) -> None:
    kept = Kept(tmp_path / "again")
    whole = markdown(report_of_night(kept.index, kept.night, nights.T0))
    for words in ((), ("-o", "-")):
        code, said = run(*words)
        assert code == 0 and said.startswith("# ") and len(said.splitlines()) == len(whole.splitlines())
    assert list((tmp_path / "here").iterdir()) == []


def test_files_are_written_where_asked_and_never_over_others(
    run: Callable[..., tuple[int, str]], tmp_path: Path
) -> None:
    here = tmp_path / "here"
    code, said = run("-o", "morning")
    assert code == 0 and f"  {here}/morning/report.md" in said and f"  {here}/morning/report.html" in said
    (here / "morning" / "report.md").write_text("mine")
    with pytest.raises(Exception, match=r"report\.md is there already .*--force"):
        run("-o", "morning")
    assert (here / "morning" / "report.md").read_text() == "mine"
    assert run("-o", "morning", "--force")[0] == 0
    assert (here / "morning" / "report.md").read_text().startswith("# ")
    assert run("-o", "one.html")[0] == 0 and (here / "one.html").read_text().startswith("<!doctype html>")
    assert sorted(p.name for p in here.iterdir()) == ["morning", "one.html"]
