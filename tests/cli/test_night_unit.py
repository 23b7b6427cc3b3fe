"""The unit that goes on with a night at start-up is one that systemd takes, and prints without installing anything."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from console.cli import cmd_night
from console.cli.night_unit import cron_line, how_to, unit_text
from console.cli.parser import build_parser
from tests.cli.conftest import Ran

ODD = {"NIGHTDECK_STATE_DIR": '/srv/50 %/$HOME "x"', "USER": "ann", "PATH": "/bin"}


def test_the_unit_is_the_output_and_the_words_are_beside_it(
    nightdeck: Callable[..., Ran], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NIGHTDECK_STATE_DIR", "/srv/night")
    ran = nightdeck("night", "resume", "--print-unit")
    assert ran.code == 0 and ran.out.startswith("[Unit]\n")
    (start,) = (line for line in ran.out.splitlines() if line.startswith("ExecStart="))
    assert start.startswith("ExecStart=/") and start.endswith(" night resume --if-interrupted --foreground")
    assert "Environment=NIGHTDECK_STATE_DIR=/srv/night" in ran.out
    assert "nothing was installed" in ran.err and "@reboot env " in ran.err
    assert "NIGHTDECK_STATE_DIR=/srv/night" in ran.err
    assert set(nightdeck("--json", "night", "resume", "--print-unit").json) == {"schema", "unit", "how"}


def test_odd_signs_reach_systemd_and_cron_as_they_are() -> None:
    unit = unit_text(["/opt/my $deck/nightdeck"], ODD)
    assert 'Environment="NIGHTDECK_STATE_DIR=/srv/50 %%/$HOME \\"x\\""' in unit
    assert 'ExecStart="/opt/my $$deck/nightdeck" night resume' in unit
    assert cron_line(["/n"], ODD) == (
        "@reboot env 'NIGHTDECK_STATE_DIR=/srv/50 \\%/$HOME \"x\"' /n night resume --if-interrupted"
    )
    assert "enable-linger ann" in how_to(["/n"], ODD)


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="no systemd-analyze")
def test_systemd_takes_the_unit(tmp_path: Path) -> None:
    file = tmp_path / "nightdeck-night.service"
    file.write_text(unit_text(["/bin/true"], ODD))
    done = subprocess.run(["systemd-analyze", "--user", "verify", str(file)], capture_output=True, text=True)
    said = [line for line in done.stderr.splitlines() if file.name in line]
    assert said == [], done.stderr


def test_an_option_that_is_named_now_takes_the_place_of_that_one_alone() -> None:
    args = build_parser().parse_args(["--recipes", "/elsewhere", "night", "resume"])
    cmd_night._as_begun(args, {"cluster": "/etc/prod/cluster.toml", "recipes": "/there", "lab_nodes": 3})
    assert (args.cluster, args.recipes, args.lab_nodes, args.speed) == ("/etc/prod/cluster.toml", "/elsewhere", 3, None)
