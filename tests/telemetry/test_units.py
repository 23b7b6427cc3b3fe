"""Quantities as text."""

from __future__ import annotations

import pytest

from console.base.absent import Absent
from console.base.units import age, duration, gib, percent, rate_text, size_text


@pytest.mark.parametrize(
    ("shown", "text"),
    [
        (gib(130_663_231_488), "121.7 GiB"),
        (gib(1 << 30, unit=False), "1.0"),
        (size_text(412 << 30), "412 GiB"),
        (size_text(512), "512 B"),
        (size_text(1536 << 30), "1.5 TiB"),
        (rate_text(310e6), "310 MB/s"),
        (rate_text(1.23e9), "1.2 GB/s"),
        (rate_text(999), "999 B/s"),
        (duration(310), "5:10"),
        (duration(3723.9), "1:02:03"),
        (duration(2 * 86400 + 3 * 3600), "2d 03:00"),
        (duration(-5), "-0:05"),
        (duration(0.99), "0:00"),
        (age(4.9), "4s"),
        (age(61), "1m"),
        (age(7200), "2h"),
        (age(5 * 86400), "5d"),
        (percent(95.7), "96%"),
    ],
)
def test_text(shown: str, text: str) -> None:
    assert shown == text


def test_an_unknown_is_na() -> None:
    gone = Absent("x")
    assert {f(gone) for f in (gib, size_text, rate_text, duration, age, percent)} == {"n/a"}
