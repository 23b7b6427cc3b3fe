"""Images on nodes: who has which, what makes two of them the same, and whether there is room for one more."""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from console.base.absent import Absent
from console.base.text import clean_bytes, clean_line
from console.cluster.model import Cluster
from console.transport.base import Completed, Fleet, Link, TransportError

ASK_S: Final = 30.0
_ABSENT: Final = re.compile(rb"no such image|not known|no image|not found|does not exist", re.I)
_BARE_ID: Final = re.compile(r"[0-9a-f]{64}\Z")
# $1: container CLI. The engine's root, or its nearest parent that this user can see; then what is free there, in KiB.
_ROOM: Final = (
    'root=$("$1" info --format "{{.DockerRootDir}}" 2>/dev/null) || root=; '
    'case $root in /*) ;; *) root=$("$1" info --format "{{.Store.GraphRoot}}" 2>/dev/null) || exit 3;; esac; '
    "case $root in /*) ;; *) exit 3;; esac; "
    'while ! df -Pk -- "$root" 2>/dev/null; do [ "$root" = / ] && exit 4; root=${root%/*}; root=${root:-/}; done'
)
# $1: container CLI. A line for each image of the node: its layers.
_LAYERS: Final = (
    'ids=$("$1" images -aq --no-trunc | sort -u | head -n 300); [ -z "$ids" ] || '
    '"$1" image inspect --format "{{json .RootFS.Layers}}" $ids'
)


@dataclass(frozen=True, slots=True)
class Image:
    """An image on a node. content: digest of layers and settings, equal wherever an image of this content lies, under
    whatever Id; empty where the engine does not tell its layers. size: bytes unpacked. layers: their digests unpacked,
    the lowest first."""

    id: str
    content: str
    size: int
    created: str = ""
    layers: tuple[str, ...] = ()

    def same(self, other: Image) -> bool:
        """By Id, else by content: engines with another storage give the same image another Id."""
        return self.id == other.id or (self.content != "" and self.content == other.content)


# None: the node answered, and has no such image.
Holding = Mapping[str, Image | Absent | None]


async def look(fleet: Fleet, cluster: Cluster, image: str, nodes: Iterable[str]) -> dict[str, Image | Absent | None]:
    """What each node has under this reference or Id; Absent: it could not be asked, and why."""
    names = list(nodes)
    found = await asyncio.gather(*(inspect(fleet.link(n), _cli(cluster, n), image) for n in names))
    return dict(zip(names, found, strict=True))


async def inspect(link: Link, cli: str, image: str) -> Image | Absent | None:
    try:
        done = await link.run([cli, "image", "inspect", "--", image], timeout=ASK_S)
    except TransportError as error:
        return Absent(error.what)
    return read_inspect(done)


def read_inspect(done: Completed) -> Image | Absent | None:
    """Never raises, whatever the engine printed."""
    if not done.ok:
        if _ABSENT.search(done.stderr):
            return None
        said = clean_bytes(done.stderr.strip().split(b"\n")[-1], limit=300)
        return Absent(said or f"exit status {done.status}")
    try:
        row = json.loads(done.stdout.decode("utf-8", "replace"))[0]
        image_id = row["Id"]
    except (ValueError, KeyError, IndexError, TypeError, RecursionError):
        return Absent("the engine's answer cannot be read")
    if not isinstance(image_id, str):
        return Absent("the engine's answer cannot be read")
    size = row.get("Size")
    image_id = clean_line(image_id, limit=100)
    return Image(
        f"sha256:{image_id}" if _BARE_ID.match(image_id) else image_id,  # podman writes it without
        _content(row),
        size if isinstance(size, int) and size > 0 else 0,
        clean_line(str(row.get("Created") or ""), limit=60),
        _layers(row),
    )


def _layers(row: Mapping[str, Any]) -> tuple[str, ...]:
    fs = row.get("RootFS")
    layers = fs.get("Layers") if isinstance(fs, dict) else None
    return tuple(x for x in layers if isinstance(x, str)) if isinstance(layers, list) else ()


def _content(row: Mapping[str, Any]) -> str:
    layers = list(_layers(row))
    if not layers:
        return ""
    config = row.get("Config")
    config = config if isinstance(config, dict) else {}
    settings = [config.get(key) or None for key in ("Entrypoint", "Cmd", "Env", "WorkingDir", "User")]
    text = json.dumps([layers, settings, row.get("Architecture")], sort_keys=True, default=str)
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()


def reference_image(holding: Holding, prefer: str | None = None) -> tuple[Image, list[str]] | None:
    """The image that all nodes should have, and who has it: the preferred node's, else what most nodes have, else the
    newest. None where nobody has one."""
    there = {name: image for name, image in holding.items() if isinstance(image, Image)}
    if not there:
        return None
    if prefer is not None and prefer in there:
        chosen = there[prefer]
    else:
        keys = Counter(image.content or image.id for image in there.values())
        chosen = max(there.values(), key=lambda image: (keys[image.content or image.id], image.created))
    return chosen, [name for name, image in there.items() if image.same(chosen)]


async def room(fleet: Fleet, cluster: Cluster, node: str) -> int | Absent:
    """Free bytes where the node's engine keeps its images."""
    try:
        done = await fleet.link(node).run(["sh", "-c", _ROOM, "sh", _cli(cluster, node)], timeout=ASK_S)
    except TransportError as error:
        return Absent(error.what)
    words = done.stdout.splitlines()[-1].split() if done.ok and done.stdout.strip() else []
    if len(words) < 4 or not words[3].isdigit():
        return Absent("the node does not say what is free where its images lie")
    return int(words[3]) * 1024


async def shared_layers(link: Link, cli: str, wanted: Image) -> int:
    """How many of the image's lowest layers lie on this node already, in images of any name; 0 where that cannot be
    told. Only docker keeps a layer once for all images and loads an archive without it."""
    if cli.rsplit("/", 1)[-1] != "docker" or not wanted.layers:
        return 0
    try:
        done = await link.run(["sh", "-c", _LAYERS, "sh", cli], timeout=ASK_S, limit=8 << 20)
    except TransportError:
        return 0
    best = 0
    for line in done.stdout.splitlines():
        try:
            layers = json.loads(line.decode("utf-8", "replace"))
        except (ValueError, RecursionError):
            continue
        count = 0
        for mine, theirs in zip(wanted.layers, layers if isinstance(layers, list) else (), strict=False):
            if mine != theirs:
                break
            count += 1
        best = max(best, count)
    return best


def _cli(cluster: Cluster, node: str) -> str:
    found = cluster.node(node)
    return found.container_cli if found is not None else "docker"


def cli_of(cluster: Cluster, node: str) -> str:
    """The node's container command."""
    return _cli(cluster, node)
