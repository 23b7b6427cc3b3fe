"""The image as the first step of a launch on real hosts: copied, refused, aborted."""

from __future__ import annotations

import signal

import pytest

from tests.acceptance.conftest import RECIPE, Deck
from tests.acceptance.test_main_job import event
from tests.testbed import image, processes

pytestmark = [
    pytest.mark.bed,
    pytest.mark.slow,
    pytest.mark.xdist_group("bed"),
    pytest.mark.timeout(240),
]


def take_away(deck: Deck, *indices: int) -> None:
    for index in indices:
        deck.bed[index].docker("rmi", "-f", image.REFERENCE)


def give_back(deck: Deck) -> None:
    for host in deck.bed.hosts:
        host.load_image(image.archive().path)


def test_nodes_without_the_image_get_it_and_the_launch_goes_on(deck: Deck) -> None:
    take_away(deck, 2, 5, 7)
    code, ran = deck.run("launch", RECIPE, "--no-sync-image")
    assert code == 1 and "image-missing on spark2" in ran.err and not deck.left_over()
    launch = deck.start("launch", RECIPE)
    launch.until(event("step_changed", step="copy image", node="spark5", state="done"), "the copy to spark5")
    assert launch.wait(90) == 0, launch.err
    assert launch.deployment["state"] == "ready"
    code, _ = deck.run("stop")
    assert code == 0
    assert all(host.docker("images", "-q", image.REFERENCE).stdout.strip() for host in deck.bed.hosts)


def test_an_abort_while_the_image_travels_leaves_nothing(deck: Deck) -> None:
    take_away(deck, *range(3, 9))
    for index in (1, 2):
        deck.bed[index].rate(1_000)  # 2.8 MB take half a minute
    launch = deck.start("launch", RECIPE)
    launch.until(event("step_changed", step="copy image", node="spark3", state="running"), "the copy to spark3")
    launch.signal(signal.SIGINT)
    assert launch.wait(60) == 130
    assert "nothing was started" in launch.err and not deck.left_over()
    deck.bed.each(lambda host: host.heal())
    for host in deck.bed.hosts:
        processes.until(lambda host=host: not host.pids("docker"), 20, f"{host.name}: docker save or load ended")  # type: ignore[misc]
    assert not any(host.docker("images", "-q", image.REFERENCE).stdout.strip() for host in deck.bed.hosts[2:])
    code, boots = deck.run("boots")
    assert code == 0 and boots.json["boots"][0]["state"] == "failed"
    give_back(deck)
