"""Page cache, building and the image's own help, against engines of the test's own."""
# ruff: noqa: E501 rows of a table are kept whole

from __future__ import annotations

import io
import os
import tarfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from console.base.absent import Absent
from console.base.errors import NightdeckError, UsageError
from console.files.build_context import context_pieces, find_context
from console.files.help_cache import HelpCache
from console.plan.help_flags import unknown
from console.recipe.model import LaunchOptions
from console.services.engine_help import known_flags
from console.services.gpu_load import read_load
from console.services.image_build import build_image
from console.services.page_cache import drop_caches, wants_drop
from console.transport.base import Completed, TransportError, Trouble
from tests.plan.build import safe
from tests.services.engines import engines
from tests.services.fakes import FakeFleet, FakeLink

HELP = " ".join(f"--flag-{i}" for i in range(20)) + "\n  --max-model-len N  --enable-auto-tool-choice, --no-enable-x\n"


def one(link: FakeLink) -> tuple[FakeFleet, object]:
    from console.cluster.model import Cluster, Node

    return FakeFleet([link]), Cluster("c", "f", (Node("n1", "n1", container_cli="docker"),))


@pytest.mark.parametrize(
    "answer, state, how, detail",
    [
        (Completed(0, b"dropped sudo 1000 4000 5000 5100\n", b""), "dropped", "sudo", ""),
        (Completed(0, b"dropped container 1000 4000 5000 5100\n", b"sudo: a password is required\n"), "dropped", "container", ""),
        (Completed(1, b"", b"sudo: a password is required\ndocker: no privileges\n"), "failed", "", "sudo: a password is required; docker: no privileges"),
        (TransportError(Trouble.LOST, "broke", node="n1"), "unknown", "", "broke"),
        (Completed(0, b"dropped sudo x y z w\n", b""), "dropped", "sudo", ""),
    ],
)  # fmt: skip
async def test_a_failure_to_drop_is_told_in_the_nodes_words(answer: object, state: str, how: str, detail: str) -> None:
    fleet, cluster = one(FakeLink("n1", lambda argv: answer))  # type: ignore[arg-type, return-value]
    done = (await drop_caches(fleet, cluster, "image:1", ["n1"]))["n1"]  # type: ignore[arg-type]
    assert (done.state, done.how, done.detail) == (state, how, detail)


async def test_the_drop_script_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run for real, on a /proc of the test's own."""
    made, cluster, fleet = engines(tmp_path, 1)
    proc = tmp_path / "proc"
    (proc / "sys/vm").mkdir(parents=True)
    (proc / "meminfo").write_text("MemTotal: 9 kB\nMemFree: 100 kB\nMemAvailable: 200 kB\n")
    (proc / "sys/vm/drop_caches").write_text("")
    monkeypatch.setenv("HOST_PROC", str(proc))
    done = (await drop_caches(fleet, cluster, "image:1", ["n1"]))["n1"]
    assert (done.state, done.how) == ("dropped", "root") and (proc / "sys/vm/drop_caches").read_text() == "3\n"
    (proc / "sys/vm/drop_caches").unlink()
    (proc / "sys/vm").rmdir()
    bin_ = tmp_path / "bin"
    bin_.mkdir()
    (bin_ / "sudo").write_text("#!/bin/sh\necho 'sudo: a password is required' >&2\nexit 1\n")
    (bin_ / "sudo").chmod(0o755)
    monkeypatch.setenv("PATH", f"{bin_}:{os.environ['PATH']}")
    done = (await drop_caches(fleet, cluster, "image:1", ["n1"]))["n1"]
    await fleet.close()
    assert done.state == "failed" and "sudo: a password is required" in done.detail and "unknown: run" in done.detail
    assert made[0].image is None


@pytest.mark.parametrize("sudo, run, how", [(0, 9, "sudo"), (1, 0, "container"), (1, 9, "")])
async def test_the_ways_to_drop_in_their_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sudo: int, run: int, how: str
) -> None:
    """sudo, run: what `sudo -n` and the engine's one-shot container end with; root's own way is barred by a folder."""
    made, cluster, fleet = engines(tmp_path, 1)
    proc, bin_ = tmp_path / "proc", tmp_path / "bin"
    (proc / "sys/vm/drop_caches").mkdir(parents=True)
    (proc / "meminfo").write_text("MemTotal: 9 kB\nMemFree: 100 kB\nMemAvailable: 200 kB\n")
    bin_.mkdir()
    (bin_ / "sudo").write_text(f'#!/bin/sh\n[ "$1" = -n ] || exit 7\nexit {sudo}\n')
    (bin_ / "sudo").chmod(0o755)
    made[0].replace("  *) echo", f'  "run "*) echo "$*" >"$S/ran"; echo no privileges >&2; exit {run};;\n  *) echo')
    monkeypatch.setenv("HOST_PROC", str(proc))
    monkeypatch.setenv("PATH", f"{bin_}:{os.environ['PATH']}")
    done = (await drop_caches(fleet, cluster, "image:1", ["n1"]))["n1"]
    await fleet.close()
    assert (done.state, done.how) == ("dropped" if how else "failed", how)
    assert ("--privileged" in made[0].said("ran") and "image:1" in made[0].said("ran")) is (sudo != 0)
    assert how or "no privileges" in done.detail


def test_a_recipe_may_ask_for_it() -> None:
    assert wants_drop(replace(safe(), launch=LaunchOptions(drop_caches=True))) and not wants_drop(safe())


def test_flags_and_their_spellings() -> None:
    known = frozenset({"--max-model-len", "--enable-x", "--no-y", "--compilation-config"})
    used = ["--max_model_len", "9", "--no-enable-x", "--y", "--compilation-config.level=3", "--nope=1", "-tp", "--nope"]
    assert unknown(known, used) == ["--nope"]


async def test_help_is_read_and_its_container_removed() -> None:
    link = FakeLink("n1", lambda argv: Completed(0, HELP.encode(), b""))
    flags = await known_flags(link, "docker", "i:1", ("vllm", "serve"), ("--help=all", "--help"))
    assert not isinstance(flags, Absent) and "--max-model-len" in flags
    run, remove = link.asked
    assert run[run.index("--entrypoint") + 1] == "vllm" and run[-3:] == ["i:1", "serve", "--help=all"]
    assert remove == ["docker", "rm", "-f", run[run.index("--name") + 1]]


async def test_a_help_that_is_none() -> None:
    for answer in (Completed(0, b"hello", b""), Completed(1, HELP.encode(), b"boom"), TransportError(Trouble.DEADLINE, "late", node="n1")):  # fmt: skip
        link = FakeLink("n1", lambda argv, answer=answer: answer)  # type: ignore[misc]
        assert isinstance(await known_flags(link, "docker", "i:1", None, ("--help",)), Absent)
        assert link.asked[-1][1] == "rm"


async def test_an_older_engine_is_asked_the_older_way() -> None:
    def answer(argv: Sequence[str]) -> Completed:
        return Completed(2, b"", b"unrecognized") if argv[-1] == "--help=all" else Completed(0, HELP.encode(), b"")

    link = FakeLink("n1", answer)
    assert not isinstance(await known_flags(link, "docker", "i:1", None, ("--help=all", "--help")), Absent)
    assert [argv[-1] for argv in link.asked if argv[1] == "run"] == ["--help=all", "--help"]


def test_flags_are_kept_by_image(tmp_path: Path) -> None:
    cache = HelpCache(tmp_path / "help")
    flags = frozenset({"--a", "--b"})
    assert cache.get("sha256:1", ("vllm",)) is None
    cache.put("sha256:1", ("vllm",), flags)
    assert cache.get("sha256:1", ("vllm",)) == flags
    assert cache.get("sha256:2", ("vllm",)) is None and cache.get("sha256:1", ("sh",)) is None
    for i in range(60):
        cache.put(f"sha256:x{i}", (), flags)
    files = list((tmp_path / "help").iterdir())
    assert len(files) == 50 and {f.stat().st_mode & 0o777 for f in files} == {0o600}
    for broken in (b"", b"[", b"[]", b'{"flags": 3}', b'{"flags": []}', b"\xff"):
        for file in files:
            file.write_bytes(broken)
        assert all(cache.get(f"sha256:x{i}", ()) is None for i in range(60))
    (tmp_path / "file").touch()
    HelpCache(tmp_path / "file").put("x", (), flags)  # a folder that cannot be: told by nobody, harms nobody


SMI = b"smi 2405, 85.1, 96, NVIDIA GB10\n"


@pytest.mark.parametrize(
    "out, err, status, words",
    [
        (b"smi 208, 4.5, 0, NVIDIA GB10\n" + SMI * 5 + b"burn 82.41\n", b"", 0, "2405 MHz, 85 W, 82 TFLOPS"),
        (b"smi 507, 14.0, 99, NVIDIA GB10\nburn 19.2\n", b"", 0, "507 MHz, 14 W, 19 TFLOPS"),
        (b"smi [N/A], [N/A], 96, NVIDIA GB10\nburn 80\n", b"", 0, "80 TFLOPS"),
        (b"burn 80\n", b"", 0, "80 TFLOPS"),
        (SMI, b"x\nModuleNotFoundError: No module named 'torch'\n", 1, "No module named 'torch'"),
        (SMI, b"", 125, "exit status 125"),
        (b"\xff\xfe smi ,,,\nsmi a,b\nburn x\n", b"", 0, "could not be loaded"),
    ],
)
def test_what_a_load_says(out: bytes, err: bytes, status: int, words: str) -> None:
    found = read_load(Completed(status, out, err))
    assert words in (found.reason if isinstance(found, Absent) else found.words)


def context(tmp_path: Path) -> Path:
    folder = tmp_path / "images" / "x"
    (folder / "sub").mkdir(parents=True)
    (folder / ".git").mkdir()
    (folder / ".git" / "config").write_text("secret")
    (folder / "Dockerfile").write_text("FROM scratch\n")
    (folder / "sub" / "big").write_bytes(os.urandom(700_000))
    (folder / "link").symlink_to("Dockerfile")
    return folder


def test_a_context_is_a_tar_without_owners_and_times(tmp_path: Path) -> None:
    folder = context(tmp_path)
    pieces = list(context_pieces(folder))
    data = b"".join(pieces)
    assert len(pieces) > 1 and data == b"".join(context_pieces(folder))
    with tarfile.open(fileobj=io.BytesIO(data)) as tar:
        assert tar.getnames() == ["Dockerfile", "link", "sub", "sub/big"]
        assert {m.uid for m in tar} == {0} and {m.mtime for m in tar} == {0}
        assert tar.getmember("link").issym()


def test_where_a_context_is_looked_for(tmp_path: Path) -> None:
    folder = context(tmp_path)
    recipe = tmp_path / "recipes" / "r" / "recipe.toml"
    recipe.parent.mkdir(parents=True)
    recipe.touch()
    assert find_context(str(recipe), "x") == folder
    for bad in ("..", "../recipes", "/etc", "none", "x/sub"):
        with pytest.raises(UsageError):
            find_context(str(recipe), bad)


async def test_a_build_is_fed_and_its_log_heard(tmp_path: Path) -> None:
    made, cluster, fleet = engines(tmp_path, 1)
    made[0].replace(
        '  "tag "*)',
        '  "build "*) cat >"$S/context.tar"; echo step 1; echo oops >&2; [ ! -f "$S/bad" ] || exit 7;;\n  "tag "*)',
    )
    made[0].put()
    heard: list[str] = []
    built = await build_image(fleet, "n1", made[0].cli, "big:local", context(tmp_path), said=heard.append)
    assert built.id.startswith("sha256:") and sorted(heard) == ["oops", "step 1"]
    assert b"Dockerfile" in (made[0].folder / "context.tar").read_bytes()[:600]
    made[0].mark("bad")
    with pytest.raises(NightdeckError, match=r"the build failed: .*oops"):
        await build_image(fleet, "n1", made[0].cli, "big:local", context(tmp_path / "again"), said=heard.append)
    await fleet.close()
    assert cluster.nodes[0].name == "n1"
