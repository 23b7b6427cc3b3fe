"""Bytes as text: binary GiB for memory, decimal GB for files, never one for the other."""

from __future__ import annotations

from typing import Final

GIB: Final = 1 << 30
GB: Final = 10**9


def gib(size: int) -> str:
    """Binary: 130663231488 is `121.69 GiB`."""
    return f"{size / GIB:.2f} GiB"


def gb(size: int) -> str:
    """Decimal: 203000000000 is `203.0 GB`."""
    return f"{size / GB:.1f} GB"


def both(size: int) -> str:
    """`25.4 GB = 23.63 GiB`."""
    return f"{gb(size)} = {gib(size)}"
