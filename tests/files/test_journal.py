"""The journal of boots: whole after a crash at any byte, one writer, no secrets."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any, get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from console.base.absent import Absent
from console.base.errors import UsageError
from console.boot import events as kinds
from console.boot.events import BootOpened, Cause, CauseFound, Event, RankProgress, RankRef, Stalled
from console.enginelog.stages_model import Cell, CellState, Stage
from console.files.atomic import DiskError, write_whole
from console.files.boot_folder import BusyError, jsonable
from console.files.event_codec import decode_event, encode_event
from console.files.journal import Journal, read_events
from console.plan.model import Plan, RankPlan

NOW = 1_790_000_000.0  # 2026-09-21T14:13:20Z


@pytest.fixture
def journal(tmp_path: Path) -> Journal:
    return Journal(tmp_path / "boots")


def events_of(path: Path) -> list[dict[str, Any] | None]:
    return [line.event for line in read_events(path)]


def test_a_boot_from_open_to_listing(journal: Journal) -> None:
    with journal.open_boot("dsv41-flash-8x", now=NOW) as folder:
        assert (folder.id, folder.number) == ("b0001-dsv41-flash-8x-20260921T141320Z", 1)
        folder.write_recipe('engine = "vllm"\n')
        folder.append_event({"type": "Acted", "at": NOW, "action": "launch"}, flush=True)
        folder.append_log(0, b"2026-09-21T14:13:21.000000000Z hello \xff\n")
        folder.append_log(3, b"x\n")
        folder.write_states({"world_size": 8, "ranks": {"0": {"container": Absent("not asked")}}})
        folder.write_summary({"state": "ready", "ready_s": 600.5})
        assert journal.boots()[0].live
    (entry,) = journal.boots()
    assert (entry.id, entry.number, entry.recipe, entry.opened_at) == (folder.id, 1, "dsv41-flash-8x", NOW)
    assert entry.summary == {"state": "ready", "ready_s": 600.5, "id": folder.id, "number": 1}
    assert (entry.trouble, entry.live, list(entry.logs)) == ("", False, [0, 3])
    assert entry.logs[0].read_bytes() == b"2026-09-21T14:13:21.000000000Z hello \xff\n"
    assert events_of(entry.path) == [{"type": "Acted", "at": NOW, "action": "launch"}]
    assert json.loads((entry.path / "states.json").read_text())["ranks"]["0"]["container"] is None


def test_only_the_user_may_read(journal: Journal) -> None:
    with journal.open_boot("x", now=NOW) as folder:
        folder.append_log(0, b"x\n")
        folder.write_summary({})
    assert stat.S_IMODE(folder.path.stat().st_mode) == 0o700
    assert {stat.S_IMODE(p.stat().st_mode) for p in folder.path.iterdir()} == {0o600}


def test_numbers_never_come_twice(journal: Journal) -> None:
    assert journal.next_number() == 1
    for expected in (1, 2):
        with journal.open_boot("x", now=NOW) as folder:
            assert folder.number == expected
    with journal.open_boot("x", now=NOW, above=10) as folder:
        assert folder.number == 11
    with journal.open_boot("x", now=NOW, number=5) as folder:
        assert folder.number == 5
    with pytest.raises(UsageError, match="boot 5 is in the journal already"):
        journal.open_boot("x", now=NOW, number=5)
    assert journal.prune(1) == [e.id for e in reversed(journal.boots())] or len(journal.boots()) == 1
    assert [e.number for e in journal.boots()] == [11]
    assert journal.next_number() == 12


@pytest.mark.parametrize("label", [999_999, 1_000_000, 999_999_999, 10**12])
def test_a_number_from_a_label_never_leaves_the_journal_without_a_next_one(journal: Journal, label: int) -> None:
    with journal.open_boot("x", now=NOW) as folder:
        assert folder.number == 1
    if label > 999_999:
        with pytest.raises(UsageError, match="no number of a boot"):
            journal.open_boot("x", now=NOW, number=label)
        assert journal.next_number(above=label) == 2
    else:
        journal.open_boot("x", now=NOW, number=label).close()
    for n in range(3):
        journal.open_boot("x", now=NOW + n).close()
    numbers = [e.number for e in journal.boots()]
    assert len(set(numbers)) == len(numbers)
    assert numbers[:3] == ([4, 3, 2] if label > 999_999 else [1_000_002, 1_000_001, 1_000_000])


def test_a_journal_that_took_such_a_number_once_goes_on(journal: Journal) -> None:
    journal.open_boot("x", now=NOW, above=6).close()
    (journal.root / "last-number").write_text("999999999")
    (journal.root / "b999999999-y-20260921T141320Z").mkdir()
    with journal.open_boot("x", now=NOW) as folder:
        assert folder.number == 8
    assert journal.get("999999999").recipe == "y"
    assert journal.next_number() == 9


def test_numbers_survive_the_removal_of_every_folder(journal: Journal) -> None:
    with journal.open_boot("x", now=NOW, above=6) as folder:
        pass
    for path in folder.path.iterdir():
        path.unlink()
    folder.path.rmdir()
    assert journal.boots() == []
    assert journal.next_number() == 8


@pytest.mark.parametrize("slug", ["../x", "", "-a", "a/b", "x" * 80, "a\n"])
def test_no_folder_is_made_for_a_name_that_is_none(journal: Journal, slug: str) -> None:
    with pytest.raises(UsageError, match="no boot can be named after"):
        journal.open_boot(slug, now=NOW)
    assert journal.boots() == []


def test_a_boot_is_found_by_id_number_or_last(journal: Journal) -> None:
    for slug in ("a", "b"):
        journal.open_boot(slug, now=NOW).close()
    assert [journal.get(k).recipe for k in ("1", "b2", "last", "b0001-a-20260921T141320Z")] == ["a", "b", "b", "a"]
    for wrong in ("3", "x", "", "..", "99999999999999999999"):
        with pytest.raises(UsageError, match="no boot"):
            journal.get(wrong)


def test_one_writer_in_this_process_and_in_others(journal: Journal) -> None:
    with journal.open_boot("x", now=NOW) as folder:
        with pytest.raises(BusyError, match=f"process {os.getpid()} writes this boot"):
            journal.reopen("1")
        code = (
            "import sys; from pathlib import Path; from console.files.journal import Journal, BusyError\n"
            "try: Journal(Path(sys.argv[1])).reopen('1')\n"
            "except BusyError: print('busy')\n"
        )
        ran = subprocess.run(
            [sys.executable, "-c", code, str(journal.root)], capture_output=True, text=True, check=True
        )
        assert ran.stdout == "busy\n"
        assert journal.prune(0) == []
        with journal.open_boot("y", now=NOW):
            pass
        assert journal.prune(1) == [], "a boot that is being written stays"
    with journal.reopen("1") as again:
        again.append_event({"type": "x"})
    assert events_of(folder.path) == [{"type": "x"}]


def test_a_killed_writer_leaves_the_boot_free(journal: Journal) -> None:
    code = (
        "import os, sys; from pathlib import Path; from console.files.journal import Journal\n"
        "f = Journal(Path(sys.argv[1])).open_boot('x', now=0.0); f.append_event({'n': 1}); os.kill(os.getpid(), 9)\n"
    )
    ran = subprocess.run([sys.executable, "-c", code, str(journal.root)], capture_output=True, check=False)
    assert ran.returncode == -9
    (entry,) = journal.boots()
    assert (entry.live, entry.trouble) == (False, "no boot.json: the console ended before it wrote one")
    with journal.reopen("1") as folder:
        folder.append_event({"n": 2})
    assert events_of(entry.path) == [{"n": 1}, {"n": 2}]


def test_events_torn_at_any_byte_lose_only_the_last(journal: Journal) -> None:
    lines = [{"n": 1, "text": "é"}, {"n": 2}, {"n": 3, "deep": [{"a": None}]}]
    with journal.open_boot("x", now=NOW) as folder:
        for line in lines:
            folder.append_event(line)
    file = folder.path / "events.jsonl"
    whole = file.read_bytes()
    for cut in range(len(whole) + 1):
        file.write_bytes(whole[:cut])
        with journal.reopen("1") as again:
            again.append_event({"n": "next"})
        read = events_of(folder.path)
        complete = whole[:cut].count(b"\n")
        # a cut right before the line's end loses nothing but the end
        assert [e for e in read if e is not None][:complete] == lines[:complete]
        assert read[-1] == {"n": "next"}
        assert len(read) <= complete + 2


def test_lines_that_are_no_events_come_as_none(journal: Journal) -> None:
    with journal.open_boot("x", now=NOW) as folder:
        pass
    (folder.path / "events.jsonl").write_bytes(b'{"a":1}\n\xff\xfe\n[1]\n' + b"[" * 100_000 + b'\n\n{"b":2}')
    assert events_of(folder.path) == [{"a": 1}, None, None, None, None, {"b": 2}]
    assert list(read_events(folder.path / "nowhere")) == []


def test_a_write_that_fails_leaves_the_old_file(journal: Journal, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    with journal.open_boot("x", now=NOW) as folder:
        folder.write_summary({"state": "booting"})
        monkeypatch.setattr(os, "fsync", full)
        with pytest.raises(DiskError, match="No space left on device"):
            folder.write_summary({"state": "ready"})
        with pytest.raises(DiskError, match="No space left on device"):
            folder.append_event({"n": 1}, flush=True)
        monkeypatch.undo()
        folder.append_event({"n": 2})
    assert journal.get("1").summary["state"] == "booting"
    assert events_of(folder.path) == [{"n": 2}], "an event that was not kept is taken back"
    assert not [p for p in folder.path.iterdir() if p.name.endswith(".tmp")]


def test_a_write_does_not_follow_a_link(tmp_path: Path) -> None:
    target = tmp_path / "target"
    target.write_text("mine")
    (tmp_path / "boot.json").symlink_to(target)
    write_whole(tmp_path / "boot.json", b"{}")
    assert target.read_text() == "mine"


@pytest.mark.parametrize(
    ("data", "trouble"),
    [(b"{", "boot.json is damaged"), (b"[]", "boot.json is damaged"), (b"\xff", "boot.json is damaged")],
)
def test_a_damaged_summary_is_listed_with_its_trouble(journal: Journal, data: bytes, trouble: str) -> None:
    journal.open_boot("x", now=NOW).close()
    (journal.boots()[0].path / "boot.json").write_bytes(data)
    assert (journal.boots()[0].trouble, journal.boots()[0].summary) == (trouble, {})


def test_strange_folders_are_no_boots(journal: Journal, tmp_path: Path) -> None:
    journal.root.mkdir()
    (journal.root / "b0001-x-20260921T141320Z").symlink_to(tmp_path)
    (journal.root / "b0002-x-99999999T999999Z").mkdir()
    (journal.root / "notes").mkdir()
    (journal.root / "b0003-x-20260921T141320Z").write_text("a file")
    assert journal.boots() == []
    assert journal.next_number() == 1


SECRET = "hunter2-hunter2"


def test_no_secret_enters_the_folder(journal: Journal) -> None:
    rank = RankPlan(
        rank=0,
        node="dgx1",
        is_head=True,
        container="c",
        argv=("docker", "run", "-e", f"HF_TOKEN={SECRET}", "img", "--api-key", SECRET),
        engine_argv=("--api-key", SECRET),
        env={"HF_TOKEN": SECRET, "A": f"x{SECRET}"},
    )
    plan = Plan("x", "t", "d", "x-b1-r", 1, "b1", "img", "m", 8000, 60.0, "dgx1", (rank,), secrets=frozenset({SECRET}))
    with journal.open_boot("x", now=NOW) as folder:
        folder.write_plan(plan)
        folder.append_event({"text": f"said {SECRET}", "env": {"API_KEY": "other"}})
        folder.write_summary({"note": SECRET})
        folder.write_recipe(f"a = '{SECRET}'\n")
        for byte in f"args: {SECRET} {SECRET[:7]}\nhunter2-hun".encode():
            folder.append_log(0, bytes([byte]))
    for path in folder.path.iterdir():
        assert SECRET.encode() not in path.read_bytes(), path.name
    assert (folder.path / "rank0.log").read_bytes() == f"args: *** {SECRET[:7]}\nhunter2-hun".encode()
    assert json.loads((folder.path / "plan.json").read_text())["ranks"][0]["env"] == {"HF_TOKEN": "***", "A": "x***"}
    assert events_of(folder.path) == [{"text": "said ***", "env": {"API_KEY": "***"}}]


@given(st.text(alphabet="abX", min_size=4, max_size=6), st.lists(st.text(alphabet="abX", max_size=8), max_size=6))
@settings(max_examples=60, deadline=None)
def test_a_secret_cut_into_pieces_is_still_masked(
    tmp_path_factory: pytest.TempPathFactory, secret: str, pieces: list[str]
) -> None:
    journal = Journal(tmp_path_factory.mktemp("j"))
    with journal.open_boot("x", now=NOW, secrets=[secret]) as folder:
        for piece in pieces:
            folder.append_log(0, piece.encode())
    log = folder.path / "rank0.log"
    written = log.read_text() if log.exists() else ""
    assert secret not in written
    if secret not in "".join(pieces):
        assert written == "".join(pieces)


JWT = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.c2lnbmVk-0"
TOKENS = ["hf_" + "a1B2" * 9, "sk-" + "x" * 20, "ghp_" + "k" * 36, "nvapi-" + "z" * 20, JWT]
LOOKS = [
    *((f"INFO token is {word} here", "INFO token is *** here") for word in TOKENS),
    ("non-default args: {'api_key': ['plain-secret-1'], 'port': 1}", "non-default args: {'api_key': '***', 'port': 1}"),
    ("pulled http://ann:pass-word@hub/x", "pulled http://***@hub/x"),
    ("authorization: bearer abcdefgh12345", "authorization: bearer ***"),
]


@pytest.mark.parametrize("step", [1 << 20, 7])
def test_what_looks_like_a_secret_is_kept_masked_whoever_wrote_the_recipe(journal: Journal, step: int) -> None:
    """A console that found the deployment may know no value of it."""
    stamp = "2026-09-21T14:13:21.000000000Z "
    said = "".join(f"{stamp}{line}\n" for line, _ in LOOKS).encode() + b"\xff\xfe hf_short caf\xc3\xa9\r\x1b[0m\n"
    with journal.open_boot("x", now=NOW) as folder:
        for at in range(0, len(said), step):
            folder.append_log(0, said[at : at + step])
    kept = "".join(f"{stamp}{line}\n" for _, line in LOOKS).encode() + b"\xff\xfe hf_short caf\xc3\xa9\r\x1b[0m\n"
    assert (folder.path / "rank0.log").read_bytes() == kept


def test_a_line_without_an_end_is_kept_in_bounds(journal: Journal) -> None:
    with journal.open_boot("x", now=NOW, secrets=[SECRET]) as folder:
        for _ in range(17):
            folder.append_log(0, b"a" * (1 << 16))
        folder.append_log(0, SECRET[:7].encode())
        assert (folder.path / "rank0.log").stat().st_size >= 1 << 20
        folder.append_log(0, SECRET[7:].encode() + b"\n")
    data = (folder.path / "rank0.log").read_bytes()
    assert len(data) == 17 * (1 << 16) + 4 and data.endswith(b"a***\n")


def sample(kind: type) -> Event:
    """An event of a kind with every field filled."""
    cell = Cell(Stage.WEIGHTS, CellState.ACTIVE, at=1.0, progress=0.5, detail="63%", line=7)
    cause = Cause("gpu_oom", "s", "a", rank=3, evidence=("l",), victims=(1, 2), at=2.0)
    filled: dict[str, Any] = {"cells": (cell,), "stage": Stage.NCCL, "cause": cause, "others": (cause,)}
    hints = kinds.__dict__[kind.__name__].__dataclass_fields__
    texts: dict[str, Any] = {"float": 1.5, "int": 4, "str": "é", "bool": True, "tuple[str, ...]": ("a", "b")}
    texts |= {"tuple[RankRef, ...]": (RankRef(0, "dgx1", "c"),), "Mapping[str, float]": {"x": 1.0}}
    texts |= {"Mapping[str, Any]": {"x": [1, None]}}
    values = {n: filled.get(n, texts.get(str(f.type).removesuffix(" | None"))) for n, f in hints.items()}
    event: Event = kind(**values)
    return event


@pytest.mark.parametrize("kind", get_args(Event), ids=lambda k: k.__name__)
def test_every_event_comes_back_as_it_went(kind: type) -> None:
    event = sample(kind)
    assert decode_event(json.loads(json.dumps(encode_event(event)))) == event


def test_events_of_other_versions() -> None:
    stored = encode_event(Stalled(1.0, ("power",)))
    assert decode_event({**stored, "new_field": 1}) == Stalled(1.0, ("power",))
    assert decode_event({**stored, "signs": "power"}) is None
    assert decode_event({"type": "Stalled", "at": 1.0}) is None
    assert decode_event({"type": "Newer"}) is None
    assert decode_event({}) is None
    opened = encode_event(BootOpened(1.0, "d", 1, "r", "t", "x", "h", (), 1.0, 60.0, 8000, "m", changed=("a",)))
    del opened["changed"]
    back = decode_event(opened)
    assert isinstance(back, BootOpened)
    assert back.changed == ()


@settings(deadline=None)
@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=4),
        lambda i: st.lists(i, max_size=3) | st.dictionaries(st.text(max_size=4), i, max_size=3),
        max_leaves=6,
    ),
    st.sampled_from([k.__name__ for k in get_args(Event)]),
)
def test_any_stored_value_gives_an_event_or_none(value: Any, kind: str) -> None:
    for name in ("at", "cells", "cause", "ranks", "numbers", "stage", "others", "values"):
        decode_event({**encode_event(sample(getattr(kinds, kind))), name: value})


def test_what_has_no_json_form_is_refused() -> None:
    assert jsonable({"a": float("nan"), "b": (1, {2}), "c": Stage.NCCL, "d": Absent("x")}) == {
        "a": None, "b": [1, [2]], "c": 4, "d": None,
    }  # fmt: skip
    with pytest.raises(TypeError, match="no JSON form for object"):
        jsonable({"x": object()})


def test_progress_and_cause_types_are_rebuilt() -> None:
    event = sample(RankProgress)
    back = decode_event(encode_event(event))
    assert isinstance(back, RankProgress)
    assert back.cells[0].state is CellState.ACTIVE
    assert isinstance(back.stage, Stage)
    found = decode_event(encode_event(sample(CauseFound)))
    assert isinstance(found, CauseFound)
    assert isinstance(found.cause, Cause)
