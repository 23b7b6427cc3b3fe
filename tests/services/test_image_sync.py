"""Images that travel between engines for real: relay programs, sockets and pipes of this machine."""

from __future__ import annotations

import asyncio
import json
import shutil
from pathlib import Path

import pytest

from console.base.absent import Absent
from console.base.errors import NightdeckError
from console.services import image_squeeze
from console.services.image_sync import NodeImage, sync_image
from console.services.images import Image, look, read_inspect, reference_image
from console.transport.base import Completed
from tests.services.engines import LocalFleet, engines
from tests.services.fakes import FakeFleet, FakeLink, ManualClock

REFERENCE = "big:local"


async def synced(cluster: object, fleet: LocalFleet, count: int, **rest: object) -> dict[str, NodeImage]:
    names = [f"n{i}" for i in range(1, count + 1)]
    try:
        return dict(await sync_image(fleet, cluster, REFERENCE, names, clock=ManualClock(), **rest))  # type: ignore[arg-type]
    finally:
        await fleet.close()


def states(done: dict[str, NodeImage]) -> list[str]:
    return [row.state for row in done.values()]


async def test_absent_on_three_is_copied_to_exactly_three(tmp_path: Path) -> None:
    made, cluster, fleet = engines(tmp_path, 5)
    for engine in made[:2]:
        engine.put()
    original = made[0].image
    made[1].folder.joinpath("images", REFERENCE).write_bytes(original or b"")
    told: list[NodeImage] = []
    done = await synced(cluster, fleet, 5, told=told.append)
    assert states(done) == ["has_it", "has_it", "copied", "copied", "copied"]
    assert all(engine.image == original for engine in made)
    assert {row.node for row in told if row.state == "copying"} == {"n3", "n4", "n5"}
    assert {done[n].via for n in ("n3", "n4", "n5")} == {"n1", "n2"}
    assert all(row.moved_bytes == len(original or b"") for n, row in done.items() if n > "n2")


async def test_equal_layers_under_another_id_are_not_copied(tmp_path: Path) -> None:
    made, cluster, fleet = engines(tmp_path, 2)
    made[0].put(image="a")
    made[1].put(image="b")
    before = made[1].image
    done = await synced(cluster, fleet, 2)
    assert sorted(states(done)) == ["has_it", "same_content"] and made[1].image == before


async def test_other_layers_are_copied_from_the_majority(tmp_path: Path) -> None:
    made, cluster, fleet = engines(tmp_path, 3)
    made[0].put(image="b", layers=("other",))
    for engine in made[1:]:
        engine.put()
    assert states(await synced(cluster, fleet, 3)) == ["copied", "has_it", "has_it"]


async def test_the_named_source_counts(tmp_path: Path) -> None:
    made, cluster, fleet = engines(tmp_path, 3)
    made[0].put(image="b", layers=("other",))
    for engine in made[1:]:
        engine.put()
    assert states(await synced(cluster, fleet, 3, source="n1")) == ["has_it", "copied", "copied"]


async def test_no_room_is_found_out_before_a_byte(tmp_path: Path) -> None:
    made, cluster, fleet = engines(tmp_path, 2)
    made[0].put()
    file = made[0].folder / "images" / REFERENCE
    file.write_bytes(file.read_bytes().replace(b'"Size": 2097152', b'"Size": %d' % (1 << 60)))
    done = await synced(cluster, fleet, 2)
    assert done["n2"].state == "no_room" and "needed" in done["n2"].detail
    assert done["n2"].moved_bytes == 0 and made[1].image is None


async def test_a_full_disk_costs_only_its_node(tmp_path: Path) -> None:
    made, cluster, fleet = engines(tmp_path, 4)
    made[0].put(mb=6)
    made[1].mark("load-fails")
    done = await synced(cluster, fleet, 4)
    assert states(done) == ["has_it", "failed", "copied", "copied"]
    assert "no space left on device" in done["n2"].detail and made[1].image is None
    assert made[3].image == made[0].image


async def test_a_source_that_cannot_send_is_replaced_by_another(tmp_path: Path) -> None:
    made, cluster, fleet = engines(tmp_path, 4)
    for engine in made[:2]:
        engine.put()
    made[0].mark("save-fails")
    done = await synced(cluster, fleet, 4)
    assert states(done) == ["has_it", "has_it", "copied", "copied"]


async def test_half_an_image_is_never_called_present(tmp_path: Path) -> None:
    made, cluster, fleet = engines(tmp_path, 3)
    made[0].put()
    made[0].mark("save-fails")
    done = await synced(cluster, fleet, 3)
    assert states(done) == ["has_it", "failed", "failed"] and "disk error" in done["n2"].detail
    assert made[1].image is None and made[2].image is None


async def test_without_a_way_between_nodes_it_goes_through_the_console(tmp_path: Path) -> None:
    made, cluster, fleet = engines(tmp_path, 3, address="192.0.2.{}")  # documentation addresses: nobody's
    made[0].put()
    done = await synced(cluster, fleet, 3)
    assert states(done) == ["has_it", "copied", "copied"] and done["n3"].via == "console"
    assert made[2].image == made[0].image


async def test_through_the_console_a_full_disk_costs_only_its_node(tmp_path: Path) -> None:
    made, cluster, fleet = engines(tmp_path, 3)
    made[0].put(mb=6)
    made[1].mark("load-fails")
    done = await synced(cluster, fleet, 3, direct=False)
    assert states(done) == ["has_it", "failed", "copied"] and done["n3"].via == "console"
    assert "no space left on device" in done["n2"].detail


@pytest.mark.parametrize("below, squeezed", [(1e18, True), (0.0, False)])
async def test_a_slow_way_through_the_console_is_compressed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, below: float, squeezed: bool
) -> None:
    if shutil.which("zstd") is None:
        pytest.skip("no zstd here")
    monkeypatch.setattr(image_squeeze, "PAYS_BELOW", below)
    monkeypatch.setattr(image_squeeze, "BUSY", 1e9)
    made, cluster, fleet = engines(tmp_path, 3)
    made[0].put()
    size = len(made[0].image or b"")
    told: list[NodeImage] = []
    done = await synced(cluster, fleet, 3, direct=False, told=told.append)
    assert states(done) == ["has_it", "copied", "copied"] and made[2].image == made[0].image
    assert {row.total_bytes for row in told if row.state == "copying"} == ({0} if squeezed else {2 << 20})
    assert (done["n2"].moved_bytes == size) is not squeezed


async def test_a_save_that_fails_fails_compressed_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if shutil.which("zstd") is None:
        pytest.skip("no zstd here")
    monkeypatch.setattr(image_squeeze, "PAYS_BELOW", 1e18)
    monkeypatch.setattr(image_squeeze, "BUSY", 1e9)
    made, cluster, fleet = engines(tmp_path, 2)
    made[0].put()
    made[0].mark("save-fails")
    done = await synced(cluster, fleet, 2, direct=False)
    assert states(done) == ["has_it", "failed"] and "disk error" in done["n2"].detail


@pytest.mark.parametrize(
    "status, out, why",
    [(1, b"", "no zstd on n2"), (0, b"7.90 8\n", "n2 is busy"), (0, b"x y\n", "n2 does not say how busy it is")],
)
async def test_what_speaks_against_compressing(status: int, out: bytes, why: str) -> None:
    other = FakeLink("n2", lambda argv: Completed(status, out, b""))
    fleet = FakeFleet([FakeLink("n1", lambda argv: Completed(0, b"0.10 8\n", b"")), other])
    assert await image_squeeze.pays(fleet, "n1", ["n2"]) == (False, why)


async def test_an_image_without_its_name_gets_the_name(tmp_path: Path) -> None:
    made, cluster, fleet = engines(tmp_path, 2)
    made[0].put()
    made[1].put("other:name")
    done = await synced(cluster, fleet, 2)
    assert done["n2"].state == "tagged" and made[1].image is not None


async def test_nobody_has_it(tmp_path: Path) -> None:
    _, cluster, fleet = engines(tmp_path, 2)
    with pytest.raises(NightdeckError, match="no node has the image big:local") as caught:
        await synced(cluster, fleet, 2)
    assert "pull" not in caught.value.remedy  # a :local image is in no registry


def alive(pid: int) -> bool:
    try:
        return ") Z " not in Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False


async def test_cancelling_leaves_nothing_running_and_nothing_half(tmp_path: Path) -> None:
    made, cluster, fleet = engines(tmp_path, 3)
    made[0].put()
    made[0].replace('"save "*) f=', '"save "*) echo $$ >"$S/saving"; sleep 1000; f=')
    task = asyncio.create_task(synced(cluster, fleet, 3))
    async with asyncio.timeout(20):
        while not (text := made[0].said("saving")).strip():  # noqa: ASYNC110  a process has no event to wait for
            await asyncio.sleep(0.02)
    pid = int(text)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    async with asyncio.timeout(20):
        while alive(pid):  # noqa: ASYNC110
            await asyncio.sleep(0.02)
    assert made[1].image is None and made[2].image is None


@pytest.mark.parametrize(
    "out", [b"", b"[]", b"{}", b"null", b'[{"Id": 5}]', b"\xff\xfe", b"[" * 100_000, b'[{"Id": "x", "RootFS": 7}]']
)
def test_what_an_engine_prints_is_never_trusted(out: bytes) -> None:
    found = read_inspect(Completed(0, out, b""))
    assert isinstance(found, Absent) or (isinstance(found, Image) and found.content == "")


def test_no_such_image_and_other_failures_are_not_the_same() -> None:
    assert read_inspect(Completed(1, b"", b"Error response from daemon: No such image: x:local")) is None
    assert isinstance(read_inspect(Completed(1, b"", b"Cannot connect to the Docker daemon")), Absent)


def test_settings_are_content_too() -> None:
    def image(entry: str) -> Image:
        row = [{"Id": f"sha256:{entry}", "RootFS": {"Layers": ["l"]}, "Config": {"Entrypoint": [entry]}}]
        found = read_inspect(Completed(0, json.dumps(row).encode(), b""))
        assert isinstance(found, Image)
        return found

    assert not image("vllm").same(image("sh"))
    chosen = reference_image({"a": image("sh"), "b": image("vllm"), "c": image("vllm"), "d": None, "e": Absent("off")})
    assert chosen is not None and chosen[1] == ["b", "c"]


async def test_a_node_that_does_not_answer_is_unknown(tmp_path: Path) -> None:
    made, cluster, fleet = engines(tmp_path, 2)
    made[0].put()
    await fleet.link("n2").close()
    holding = await look(fleet, cluster, REFERENCE, ["n1", "n2"])
    assert isinstance(holding["n2"], Absent)
    done = await synced(cluster, fleet, 2)
    assert states(done) == ["has_it", "unknown"]
