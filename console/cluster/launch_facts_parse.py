"""The launch's part of a node's report as values; strange ones become absences with a reason."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, TypeVar

from console.cluster import launch_facts as lf
from console.cluster.facts_shapes import Odd, count, items, number, or_absent, row, table, text, texts, truth

T = TypeVar("T")


class Fact(Protocol):
    """One fact of the report by its name, read by a function that raises `Odd`."""

    def __call__(self, name: str, read: Callable[[Any], T]) -> Any: ...


def parse_launch(fact: Fact) -> lf.LaunchFacts:
    """Never raises for what the node said."""
    plain: dict[str, Callable[[Any], Any]] = {
        "mounts": lambda v: table(v, _path),
        "models": lambda v: tuple(_model(i) for i in items(v)),
        "images": lambda v: table(v, _image),
        "containers": lambda v: tuple(_container(i) for i in items(v)),
        "engines": lambda v: tuple(_engine(i) for i in items(v)),
        "gpu_holders": lambda v: tuple(_holder(i) for i in items(v)),
        "gpu_clocks": lambda v: tuple(_clock(i) for i in items(v)),
        "routes": lambda v: tuple(_route(i) for i in items(v)),
        "watchdogs": texts,
        "consoles": count,
        "remove_ipc": truth,
        "linger": truth,
        "shm_leftovers": lambda v: {text(row(i).get("name")): count(row(i).get("bytes")) for i in items(v)},
        **{f"{n}_bytes": count for n in ("shm_total", "shm_free", "swap_total", "swap_free", "cma_total", "cma_free")},
        "page_cache_bytes": count,
    }
    return lf.LaunchFacts(**{name: fact(name, read) for name, read in plain.items()})


def _words(value: object) -> str:
    """Text that may be empty."""
    return "" if value in (None, "") else text(value)


def _path(value: object) -> lf.PathFact:
    r = row(value)
    return lf.PathFact(text(r.get("kind")), _words(r.get("why")), truth(r.get("writable")))


def _model(value: object) -> lf.ModelFact:
    r = row(value)
    return lf.ModelFact(
        name=text(r.get("model")),
        folder=text(r.get("folder")),
        state=text(r.get("state")),
        why=_words(r.get("why")),
        revision=_words(r.get("revision")),
        missing=texts(r.get("missing", [])),
        damaged=texts(r.get("damaged", [])),
        files=count(r.get("files", 0)),
        size_bytes=count(r.get("bytes", 0)),
        tensor_bytes=or_absent(r, "tensor_bytes", count, "the shards' headers were not read"),
    )


def _image(value: object) -> lf.ImageFact:
    r = row(value)
    size = or_absent(r, "size", count, "the engine does not say")
    return lf.ImageFact(
        text(r.get("id")),
        texts(r.get("layers")),
        size,
        _words(r.get("user")),
        _words(r.get("architecture")),
        _words(r.get("settings")),
    )


def _container(value: object) -> lf.ContainerFact:
    r = row(value)
    return lf.ContainerFact(
        text(r.get("id")), text(r.get("name")), _words(r.get("image")), _words(r.get("state")), truth(r.get("ours"))
    )


def _engine(value: object) -> lf.EngineProcess:
    r = row(value)
    return lf.EngineProcess(
        count(r.get("pid")),
        text(r.get("line")),
        _words(r.get("container")),
        count(r.get("rss_bytes")),
        number(r.get("age_s")),
    )


def _holder(value: object) -> lf.GpuHolder:
    r = row(value)
    size = or_absent(r, "bytes", count, "nvidia-smi does not say")
    return lf.GpuHolder(count(r.get("pid")), _words(r.get("name")), _words(r.get("container")), size)


def _clock(value: object) -> lf.GpuClock:
    r = row(value)
    why = "nvidia-smi does not say"
    return lf.GpuClock(
        or_absent(r, "sm_mhz", number, why),
        or_absent(r, "power_w", number, why),
        or_absent(r, "util", number, why),
        or_absent(r, "reasons", count, why),
    )


def _route(value: object) -> lf.Route:
    r = row(value)
    why = _words(r.get("why")) or "not tried"
    return lf.Route(
        peer=text(r.get("peer")),
        interface=or_absent(r, "interface", text, why),
        mtu=or_absent(r, "mtu", count, why),
        small=or_absent(r, "small", truth, why),
        large=or_absent(r, "large", truth, why),
        why=_words(r.get("why")),
    )


__all__ = ["Odd", "parse_launch"]
