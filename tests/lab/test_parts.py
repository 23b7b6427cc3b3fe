"""The lab's small parts by themselves."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from console.lab.clock import LabClock, parse_moment, rfc3339_nano
from console.lab.gotemplate import TemplateError, render
from console.lab.images import ImageStore, loaded, saved
from console.lab.layout import known_recipes, node_home
from console.lab.logstore import LogStore
from console.lab.vllm_args import BadArgument, parse
from console.lab.vllm_text import graph_bar, shard_bar


def test_moments_in_all_of_docker_s_forms() -> None:
    ns = 1_790_000_000_123_456_789
    assert parse_moment(rfc3339_nano(ns), 0) == ns
    assert parse_moment("1790000000.123456789", 0) == ns
    assert parse_moment("1790000000", 0) == 1_790_000_000_000_000_000
    assert parse_moment("2026-09-21T12:00:00+02:00", 0) == parse_moment("2026-09-21T10:00:00Z", 0)
    assert parse_moment("1m30s", 100 * 10**9) == 10 * 10**9
    assert parse_moment("yesterday", 0) is None and parse_moment("", 0) is None


def test_templates() -> None:
    value = {"State": {"Status": "running"}, "Labels": {"a.b": "c"}, "Running": True, "N": None}
    assert render("{{.State.Status}}\\t{{ .Running }}", value) == "running\ttrue"
    assert render('{{index .Labels "a.b"}}{{index .Labels "x"}}', value) == "c"
    assert render("{{json .Labels}}{{.Labels | json}}", value) == '{"a.b":"c"}{"a.b":"c"}'
    for wrong in ("{{.Nope}}", "{{nope .}}", "{{}}"):
        with pytest.raises(TemplateError):
            render(wrong, value)


def test_arguments_of_the_engine() -> None:
    args = parse(["m/x", "--nnodes", "8", "--node-rank=3", "--headless", "--max-model-len", "512k", "-tp", "8",
                  "--speculative-config", '{"num_speculative_tokens": 5}', "--some-future-flag", "7"])  # fmt: skip
    assert (args.model, args.world, args.rank, args.headless, args.max_len, args.drafts) == (
        "m/x",
        8,
        3,
        True,
        524288,
        5,
    )
    for words, said in (
        (["m", "--nnodes", "x"], "argument --nnodes: invalid int value: 'x'"),
        (["m", "--gpu-memory-utilization", "1.2"], "must be in"),
        (["m", "--max-model-lenn", "1"], "unrecognized arguments: --max-model-lenn"),
        (["m", "--compilation-config", "{'a':1}"], "cannot be converted"),
        (["m", "extra"], "unrecognized arguments: extra"),
        (["m", "--port"], "expected one argument"),
    ):
        with pytest.raises(BadArgument, match=said):
            parse(words)


def test_bars_have_the_engine_s_shape() -> None:
    assert shard_bar(0, 48, 0) == "Loading safetensors checkpoint shards:   0% Completed | 0/48 [00:00<?, ?it/s]"
    assert (
        shard_bar(6, 48, 29.9)
        == "Loading safetensors checkpoint shards:  12% Completed | 6/48 [00:29<03:29,  4.98s/it]"
    )
    assert graph_bar("Capturing", 2, 1.0).count(b"\r") == 3 and b"100%|" in graph_bar("Capturing", 2, 1.0)


async def test_followers_read_every_line_once() -> None:
    logs = LogStore()
    logs.text("one")

    async def follow() -> list[bytes]:
        return [e.data async for e in logs.follow()]

    reading = asyncio.create_task(follow())
    await asyncio.sleep(0)
    logs.text("two")
    logs.text("three")
    await asyncio.sleep(0)
    logs.text("four")
    logs.close()
    assert await reading == [b"one\n", b"two\n", b"three\n", b"four\n"]
    stamps = [e.at for e in logs.snapshot()]
    assert stamps == sorted(set(stamps))
    assert [e.data for e in logs.snapshot(since=stamps[2])] == [b"three\n", b"four\n"]
    assert [e.data for e in logs.snapshot(tail=1)] == [b"four\n"] and logs.snapshot(tail=0) == []


def test_a_full_log_loses_its_oldest_lines() -> None:
    logs = LogStore(limit_bytes=30)
    for n in range(10):
        logs.add(b"%08d\n" % n)
    assert [e.data for e in logs.snapshot()] == [b"00000007\n", b"00000008\n", b"00000009\n"]


def test_images_travel_with_their_names() -> None:
    image = ImageStore(["a/b"]).find("a/b")
    assert image is not None and loaded(saved([image])) == ["a/b:latest"]
    with pytest.raises(ValueError, match="docker-import"):
        loaded(b"not a tar")


def test_the_clock_scales_what_it_must_and_no_more() -> None:
    clock = LabClock(12.0)
    assert clock.wall(60.0) == 5.0 and clock.lab(5.0) == 60.0
    with pytest.raises(ValueError):
        LabClock(0)


def test_each_recipe_that_ships_finds_what_it_reads_at_home(tmp_path: Path) -> None:
    images, models, homes = known_recipes([Path(__file__).parents[2] / "recipes"])
    assert "engram-local" in homes and not any("sm121-cache" in home for home in homes), "a launch makes those"
    assert "dsv41-flash:local" in images
    node_home(tmp_path, models, homes)
    assert (tmp_path / "home/engram-local").is_dir()


@pytest.mark.parametrize("host", ["~/../../etc", "/etc", "~", 7, None, "~/a\0b"])
def test_a_recipes_mount_makes_no_folder_outside_a_lab_node(tmp_path: Path, host: object) -> None:
    (tmp_path / "r").mkdir()
    text = json.dumps(host) if isinstance(host, (str, int)) else '"~/x"\nread_only = false'
    (tmp_path / "r/recipe.toml").write_text(f"[[extra_mounts]]\nhost = {text}\nread_only = true\n")
    assert known_recipes([tmp_path])[2] == set()
