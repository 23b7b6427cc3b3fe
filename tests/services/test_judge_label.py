"""A deployment that is found again is judged as its recipe said: its labels carry it."""

from __future__ import annotations

import json

import pytest

from console.boot.reduce import opened
from console.services.census import read_census
from console.services.discovery import open_found
from console.transport.base import Completed


@pytest.mark.parametrize(("labels", "judged"), [({}, True), ({"nightdeck.judge": "off"}, False)])
def test_the_label_decides(labels: dict[str, str], judged: bool) -> None:
    row = {
        "Id": "abc",
        "Name": "/nd-tiny-b1-r0",
        "State": {"Status": "running", "StartedAt": "2026-11-30T04:36:19.445931404Z"},
        "Config": {"Labels": {"nightdeck.deployment": "d", "nightdeck.rank": "0", "nightdeck.world": "1", **labels}},
    }
    found = read_census("dgx1", Completed(status=0, stdout=json.dumps([row]).encode(), stderr=b""))
    assert isinstance(found, tuple)
    event = open_found(found, now=1796013800.0)
    assert event is not None
    assert opened(event).judge is judged
