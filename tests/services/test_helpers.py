"""Containers of a moment's use: labelled, and found where a console died before it removed them."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path

from console.base.absent import Absent
from console.cluster.model import Cluster, Node
from console.services.engine_help import known_flags
from console.services.gpu_load import load_gpus
from console.services.helpers import LABEL_HELPER, PURPOSES, find_helpers, remove_helpers
from console.services.page_cache import drop_caches
from console.transport.base import Completed, TransportError, Trouble
from tests.services.fakes import FakeFleet, FakeLink

CLUSTER = Cluster("c", "f", (Node("n1", "n1"), Node("n2", "n2"), Node("n3", "n3")))


async def test_each_kind_is_labelled() -> None:
    link = FakeLink("n1")
    await known_flags(link, "docker", "img", None, ["--help"])
    await load_gpus(FakeFleet([link]), CLUSTER, "img", "all", ["n1"])
    await drop_caches(FakeFleet([link]), CLUSTER, "img", ["n1"])
    runs = [argv for argv in link.asked if any(word == "run" or " run " in word for word in argv)]
    assert len(runs) == 3
    for argv in runs:
        assert f"{LABEL_HELPER}=1" in argv or ('--label "$3=1"' in argv[2] and argv[6] == LABEL_HELPER)


async def test_what_was_left_is_removed_by_its_label_alone(tmp_path: Path) -> None:
    """The program itself, with an engine that remembers what it was told."""
    cli, told = tmp_path / "docker", tmp_path / "told"
    cli.write_text(
        f'#!/bin/sh\necho "$@" >>{told}\nif [ "$1" = ps ]; then echo aa; echo bb; fi\n[ "$*" != "rm -f -v bb" ]\n'
    )
    cli.chmod(0o755)

    def run(argv: Sequence[str]) -> Completed:
        done = subprocess.run([*argv[:4], str(cli), *argv[5:]], capture_output=True, check=False)
        return Completed(done.returncode, done.stdout, done.stderr)

    dead = TransportError(Trouble.SILENT, "no answer", node="n3")
    fleet = FakeFleet([FakeLink("n1", run), FakeLink("n2"), FakeLink("n3", lambda argv: dead)])
    assert await remove_helpers(fleet, CLUSTER, ["n1", "n2", "n3"]) == {"n1": ("aa",)}
    assert told.read_text().splitlines() == [
        f"ps -aq --no-trunc --filter label={LABEL_HELPER}", "rm -f -v aa", "rm -f -v bb",
    ]  # fmt: skip


async def test_what_runs_now_is_named_with_what_it_does() -> None:
    """By the probe where it can say, else by the engine's command; a node that cannot say has none that is known."""
    inspected = {"Id": "aa", "Name": "/nd-load-1f", "State": {"Status": "running", "StartedAt": "2026-09-21T14:13:20Z"}}

    async def quick(node: str) -> list[object] | None:
        return [inspected, "nonsense"] if node == "n1" else None

    listed = Completed(0, b"nd-drop-77\texited\nother\trunning\n\xff\x1b[31m\n", b"")
    fleet = FakeFleet([FakeLink("n1"), FakeLink("n2", lambda argv: listed), FakeLink("n3", lambda argv: denied)])
    denied = Completed(1, b"", b"permission denied while trying to connect\n")
    found = await find_helpers(fleet, CLUSTER, ["n1", "n2", "n3"], quick)
    (load,) = found["n1"]
    assert (load.name, load.state, load.started_at) == ("nd-load-1f", "running", 1_790_000_000.0)
    assert load.what == "loads the GPU for some seconds (preflight --deep)"
    rows = found["n2"]
    assert [(h.name, h.state) for h in rows][:2] == [("nd-drop-77", "exited"), ("other", "running")]
    assert rows[0].what == "gives the node's page cache back" and "no purpose" in rows[1].what
    assert "\x1b" not in repr([h.name for h in rows])
    assert found["n3"] == Absent("permission denied while trying to connect")


async def test_every_helper_s_name_tells_its_purpose() -> None:
    link = FakeLink("n1")
    await known_flags(link, "docker", "img", None, ["--help"])
    await load_gpus(FakeFleet([link]), CLUSTER, "img", "all", ["n1"])
    await drop_caches(FakeFleet([link]), CLUSTER, "img", ["n1"])
    said = " ".join(word for argv in link.asked for word in argv)
    assert all(prefix in said for prefix in PURPOSES)
