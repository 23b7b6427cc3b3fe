"""The numbers of a node as the table shows them, read from its last sample; and which of them stand out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from console.base.absent import Absent, known
from console.services.hub import NodeView
from console.telemetry.outliers import column
from console.telemetry.sample import Float
from console.tui.figures import GIB, number


@dataclass(frozen=True, slots=True)
class Figures:
    """None is unknown, shown as n/a. Bytes, percent, °C, W, MHz, bytes per second."""

    total: float | None = None
    used: float | None = None
    available: float | None = None
    shmem: float | None = None
    swap: float | None = None
    dedicated: bool = False
    gpu: float | None = None
    temp: float | None = None
    power: float | None = None
    clock: float | None = None
    rx: float | None = None
    tx: float | None = None
    disk: float | None = None
    load: float | None = None
    io_full: float | None = None
    mem_full: float | None = None
    throttle: tuple[str, ...] = ()
    errors: int = 0


def figures_of(view: NodeView) -> Figures:
    """What the last sample says; all unknown before the first."""
    sample = view.sample
    if isinstance(sample, Absent):
        return Figures()
    gpus = sample.gpus if known(sample.gpus) else ()
    memory = sample.memory
    rx, tx, errors = _fabric(view)
    spaces = [number(f.available_bytes) for f in sample.filesystems] if known(sample.filesystems) else []
    total, available, used = (
        number(memory.total_bytes),
        number(memory.available_bytes),
        number(memory.used_bytes),
    )
    return Figures(
        total=total,
        used=used,
        available=available,
        shmem=number(memory.shmem_bytes),
        swap=number(memory.swap_used_bytes),
        dedicated=bool(gpus) and not sample.unified,
        gpu=_most(number(g.util_percent) for g in gpus),
        temp=_most(number(g.temp_c) for g in gpus),
        power=_sum(number(g.power_w) for g in gpus),
        clock=_least(number(g.clock_mhz) for g in gpus),
        rx=rx,
        tx=tx,
        disk=_least(spaces),
        load=number(sample.cpu.load1),
        io_full=number(sample.psi_io.full10) if known(sample.psi_io) else None,
        mem_full=number(sample.psi_memory.full10) if known(sample.psi_memory) else None,
        throttle=tuple(sorted({word for g in gpus if known(g.throttle) for word in g.throttle})),
        errors=errors,
    )


def _fabric(view: NodeView) -> tuple[float | None, float | None, int]:
    """RDMA traffic when the ports count it, else that of the fabric interface: RoCE does not pass the netdev."""
    sample = view.sample
    if isinstance(sample, Absent):
        return None, None, 0
    ports = sample.rdma if known(sample.rdma) else ()
    errors = sum(sum(p.errors.values()) for p in ports if known(p.errors))
    rx, tx = _sum(number(p.rx_bytes_s) for p in ports), _sum(number(p.tx_bytes_s) for p in ports)
    if rx is not None or tx is not None or not known(sample.net):
        return rx, tx, errors
    wanted = view.node.fabric_interface
    nets = [n for n in sample.net if n.name == wanted] if wanted else list(sample.net)
    return _sum(number(n.rx_bytes_s) for n in nets), _sum(number(n.tx_bytes_s) for n in nets), errors


def _sum(values: Iterable[float | None]) -> float | None:
    have = [v for v in values if v is not None]
    return sum(have) if have else None


def _most(values: Iterable[float | None]) -> float | None:
    return max((v for v in values if v is not None), default=None)


def _least(values: Iterable[float | None]) -> float | None:
    return min((v for v in values if v is not None), default=None)


@dataclass(frozen=True, slots=True)
class Standouts:
    """Names of the nodes whose figure is the worst or far from the others. lowest: least memory available."""

    lowest: str = ""
    hottest: str = ""
    odd: frozenset[tuple[str, str]] = frozenset()
    remarks: tuple[tuple[str, str], ...] = ()

    def remark(self, node: str) -> str:
        return ", ".join(text for name, text in self.remarks if name == node)


# (field, remark, figure, the bad end, spread that never matters in the figure's unit)
CHECKS: Final[tuple[tuple[str, str, Callable[[Figures], float | None], Literal["low", "high"], float], ...]] = (
    ("gpu", "GPU idle", lambda f: f.gpu, "low", 25.0),
    ("temp", "hot", lambda f: f.temp, "high", 8.0),
    ("power", "low power", lambda f: f.power, "low", 10.0),
    ("clock", "low clock", lambda f: f.clock, "low", 400.0),
    ("fabric", "slow fabric", lambda f: f.rx, "low", 100e6),
    ("load", "load", lambda f: f.load, "high", 4.0),
)


def standouts(rows: Sequence[tuple[str, Figures]]) -> Standouts:
    """Worst and odd values among nodes whose samples are fresh."""

    def have(get: Callable[[Figures], float | None]) -> dict[str, Float]:
        return {name: v for name, f in rows if (v := get(f)) is not None}

    odd: set[tuple[str, str]] = set()
    remarks: list[tuple[str, str]] = []
    for field, words, get, bad, spread in CHECKS:
        for name in column(have(get), bad=bad, min_spread=spread).outliers:
            odd.add((name, field))
            remarks.append((name, words))
    lowest = _worst(have(lambda f: f.available), "low", GIB / 2)
    hottest = _worst(have(lambda f: f.temp), "high", 4.0)
    return Standouts(lowest, hottest, frozenset(odd), tuple(remarks))


def _worst(values: Mapping[str, Float], bad: Literal["low", "high"], spread: float) -> str:
    """The worst node, none where all are within `spread` of each other."""
    known = [v for v in values.values() if not isinstance(v, Absent)]
    if len(known) < 2 or max(known) - min(known) < spread:
        return ""
    return column(values, bad=bad, min_spread=spread).worst or ""
