"""Places, and the recipes and cluster files found there."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from console.base.errors import FileError, UsageError
from console.base.toml_check import FileErrors
from console.files import recipes
from console.files.clusters import find_cluster, load_cluster
from console.files.places import Places, bundled_folder, find_places
from console.files.read import LARGEST, read_text
from console.files.recipes import load_recipe, load_recipes
from console.recipe.model import Recipe
from console.recipe.parse import parse_recipe

GOOD = 'engine = "vllm"\nname = "x"\ndocker_image = "i"\nmodel = "m"\nrequired_nodes = 1\n'


@pytest.fixture
def places(tmp_path: Path) -> Places:
    return Places(tmp_path / "config", tmp_path / "state", tmp_path / "work", tmp_path / "bundled")


def put(folder: Path, name: str, text: str = GOOD) -> Path:
    path = folder / "recipes" / name / "recipe.toml"
    path.parent.mkdir(parents=True)
    path.write_text(text)
    return path


def test_places_by_environment(tmp_path: Path) -> None:
    env = {"NIGHTDECK_CONFIG_DIR": str(tmp_path / "c"), "NIGHTDECK_STATE_DIR": str(tmp_path / "s")}
    places = find_places(env, work=tmp_path)
    assert places.cluster_file == tmp_path / "c" / "cluster.toml"
    assert places.boots == tmp_path / "s" / "boots"
    assert [p.label for p in places.recipe_folders(tmp_path / "x")] == [
        "--recipes",
        "working folder",
        "configuration",
        "bundled",
    ]


def test_places_by_habit(home: Path) -> None:
    places = find_places({}, work=home)
    assert places.config == home / ".config" / "nightdeck"
    assert places.state == home / ".local" / "state" / "nightdeck"


def test_the_checkout_brings_its_recipes(places: Places) -> None:
    assert (bundled_folder() / "recipes" / "tiny-cpu" / "recipe.toml").is_file()


def test_a_folder_reached_twice_counts_once(tmp_path: Path) -> None:
    put(tmp_path, "a")
    places = Places(tmp_path / "config", tmp_path / "state", tmp_path, tmp_path)
    shelf = load_recipes(places, tmp_path / "recipes")
    assert [r.slug for r in shelf.recipes] == ["a"]
    assert shelf.errors == ()
    assert places.recipe_folders()[0].label == "bundled"


def test_one_bad_file_hides_no_good_one(places: Places) -> None:
    put(places.work, "good")
    put(places.work, "bad", GOOD.replace("vllm", "vlm"))
    put(places.config, "worse", "\0")
    shelf = load_recipes(places)
    assert [r.slug for r in shelf.recipes] == ["good"]
    assert [Path(e.file).parent.name for e in shelf.errors] == ["bad", "worse"]
    with pytest.raises(FileErrors, match="did you mean"):
        shelf.get("bad")
    with pytest.raises(UsageError, match=r'no recipe is called "goood"; there are: good \(did you mean "good"\?\)'):
        shelf.get("goood")
    assert shelf.get("good").title == "x"


def test_two_recipes_of_one_name_name_both_files(places: Places) -> None:
    first, second = put(places.work, "a"), put(places.config, "a")
    put(places.config, "b")
    shelf = load_recipes(places)
    assert [r.slug for r in shelf.recipes] == ["b"]
    assert [e.message for e in shelf.errors] == [f'two recipes are called "a": {first} and {second}']
    with pytest.raises(FileErrors, match="rename one folder"):
        shelf.get("a")


def test_a_bad_file_of_the_same_name_does_not_decide_which_is_meant(places: Places) -> None:
    first, second = put(places.work, "a"), put(places.config, "a", "engine = 1")
    shelf = load_recipes(places)
    assert shelf.recipes == ()
    assert f'two recipes are called "a": {first} and {second}' in [e.message for e in shelf.errors]


def test_a_copy_of_a_bundled_recipe_takes_its_place_until_it_differs(places: Places) -> None:
    put(places.bundled, "a")
    own = put(places.work, "a", "# my copy\n" + GOOD)
    assert [r.file for r in load_recipes(places).recipes] == [str(own)]
    own.write_text(GOOD.replace("required_nodes = 1", "required_nodes = 2\ntensor_parallel_size = 2"))
    shelf = load_recipes(places)
    assert shelf.recipes == ()
    assert "two recipes are called" in shelf.errors[0].message


def test_a_recipes_folder_that_is_not_there_is_said(places: Places) -> None:
    shelf = load_recipes(places, places.work / "nowhere")
    assert [str(e) for e in shelf.errors] == [f"{places.work}/nowhere: no such folder (given with --recipes)"]


def test_a_folder_that_cannot_be_a_name_is_said(places: Places) -> None:
    put(places.work, "-rf x")
    put(places.work, ".hidden")
    shelf = load_recipes(places)
    assert len(shelf.errors) == 1
    assert "the folder's name is the recipe's name" in shelf.errors[0].message


def test_a_folder_without_a_recipe_is_no_recipe(places: Places) -> None:
    (places.work / "recipes" / "images").mkdir(parents=True)
    (places.work / "recipes" / "README").write_text("x")
    assert load_recipes(places).errors == ()


def make_folder(path: Path) -> None:
    path.mkdir()


def make_pipe(path: Path) -> None:
    os.mkfifo(path)


def make_device(path: Path) -> None:
    path.symlink_to("/dev/zero")


def make_dangling(path: Path) -> None:
    path.symlink_to(path.parent / "nowhere")


def make_loop(path: Path) -> None:
    path.symlink_to(path)


def make_huge(path: Path) -> None:
    path.write_bytes(b"#" * (LARGEST + 1))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (make_folder, "must be a regular file, found a folder"),
        (make_pipe, "must be a regular file, found a pipe or a device"),
        (make_device, "must be a regular file, found a pipe or a device"),
        (make_dangling, "a link that points to nothing"),
        (make_loop, "a link that points to itself"),
        (make_huge, "too large: 1048577 bytes, allowed are 1048576"),
    ],
)
def test_what_is_no_recipe_file_is_an_error_of_its_own(places: Places, make: object, message: str) -> None:
    path = places.work / "recipes" / "x" / "recipe.toml"
    path.parent.mkdir(parents=True)
    assert callable(make)
    make(path)
    put(places.work, "good")
    shelf = load_recipes(places)
    assert [(e.file, e.message) for e in shelf.errors] == [(str(path), message)]
    assert [r.slug for r in shelf.recipes] == ["good"]


def test_bytes_that_are_not_utf8_are_named(tmp_path: Path) -> None:
    path = tmp_path / "recipe.toml"
    path.write_bytes('a = 1\nb = "é'.encode() + b'\xff"\n')
    with pytest.raises(FileError) as caught:
        read_text(path)
    assert str(caught.value) == f"{path}:2:7: not UTF-8: byte 0xff at offset 13 (save the file as UTF-8)"


def test_a_recipe_by_its_path(tmp_path: Path) -> None:
    path = put(tmp_path, "mine")
    assert load_recipe(path).slug == "mine"
    with pytest.raises(FileErrors, match="no such file"):
        load_recipe(tmp_path / "none.toml")


def test_cluster_file(places: Places, home: Path) -> None:
    assert find_cluster(places) is None
    places.config.mkdir()
    places.cluster_file.write_text('ssh_config = "ssh/config"\n[[nodes]]\nhost = "a"\n')
    cluster = find_cluster(places)
    assert cluster is not None
    assert cluster.ssh_config == str(places.config / "ssh" / "config")
    places.cluster_file.write_text('ssh_config = "~/c"\n[[nodes]]\nhost = "a"\n')
    assert load_cluster(places.cluster_file).ssh_config == str(home / "c")
    places.cluster_file.write_text("[[nodes]]\n")
    with pytest.raises(FileErrors, match=r"cluster\.toml:1:3: nodes\[1\]\.host: missing"):
        find_cluster(places)


def test_a_recipe_is_parsed_again_only_when_its_file_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    parsed: list[str] = []

    def parse(text: str, *, slug: str, file: str) -> Recipe:
        parsed.append(slug)
        return parse_recipe(text, slug=slug, file=file)

    monkeypatch.setattr(recipes, "parse_recipe", parse)
    path = put(tmp_path, "tiny")
    load_recipe(path), load_recipe(path)
    assert parsed == ["tiny", "tiny"], "what was written this moment may be written once more in the same moment"
    later = time.time() + 60
    monkeypatch.setattr(time, "time", lambda: later)
    first = load_recipe(path)
    assert load_recipe(path) is first and parsed == ["tiny"] * 3
    assert load_recipe(path, slug="other").slug == "other"
    path.write_text(GOOD.replace('"m"', '"n"'))  # the same length
    assert load_recipe(path).model == "n" and len(parsed) == 5
    path.write_text("model = ")
    with pytest.raises(FileErrors):
        load_recipe(path)
    path.unlink()
    with pytest.raises(FileErrors):
        load_recipe(path)
