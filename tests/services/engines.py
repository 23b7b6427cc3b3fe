"""Container engines of a test's own: a script that keeps images in a folder, and links of this machine to use it."""
# ruff: noqa: E501 the script is kept as it is run

from __future__ import annotations

import json
import os
import stat
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from console.cluster.model import Cluster, Node
from console.transport.local import LocalLink

# An archive is the inspect text of its image, a line, and then bytes. `load` installs only what came whole.
SCRIPT = r"""#!/bin/sh
S={state}
case "$1 $2" in
  "image inspect") f=$S/images/$(printf %s "$4" | tr / _)
    if [ -f "$f" ]; then printf '['; head -n 1 "$f"; printf ']'; exit 0; fi
    for f in "$S"/images/*; do grep -q "\"Id\": \"$4\"" "$f" 2>/dev/null && { printf '['; head -n 1 "$f"; printf ']'; exit 0; }; done
    echo "Error: No such image: $4" >&2; exit 1;;
  "info "*) echo "$S";;
  "save "*) f=$S/images/$(printf %s "$2" | tr / _)
    if [ -f "$S/save-fails" ]; then head -c 100000 "$f"; echo "disk error" >&2; exit 1; fi
    cat "$f";;
  "load "*) [ ! -f "$S/load-fails" ] || { head -c 1000 >/dev/null; echo "no space left on device" >&2; exit 1; }
    cat >"$S/coming.$$"; mkdir -p "$S/images"
    tail -c 4 "$S/coming.$$" | grep -q END || { echo "unexpected EOF" >&2; exit 1; }
    mv "$S/coming.$$" "$S/images/big:local";;
  "tag "*) for f in "$S"/images/*; do grep -q "\"Id\": \"$2\"" "$f" && cp "$f" "$S/images/$(printf %s "$3" | tr / _)"; done;;
  *) echo "unknown: $*" >&2; exit 1;;
esac
"""


@dataclass
class Engine:
    name: str
    folder: Path

    @property
    def cli(self) -> str:
        return str(self.folder / "docker")

    def put(
        self, reference: str = "big:local", *, image: str = "a", layers: Sequence[str] = ("l1",), mb: int = 2
    ) -> None:
        row = {
            "Id": f"sha256:{image * 64}",
            "RootFS": {"Layers": list(layers)},
            "Config": {"Entrypoint": ["vllm", "serve"]},
            "Architecture": "arm64",
            "Size": mb << 20,
            "Created": "2026-09-18T00:00:00Z",
        }
        (self.folder / "images").mkdir(exist_ok=True)
        data = json.dumps(row).encode() + b"\n" + os.urandom(mb << 20).replace(b"\n", b" ") + b"END\n"
        (self.folder / "images" / reference.replace("/", "_")).write_bytes(data)

    @property
    def image(self) -> bytes | None:
        file = self.folder / "images" / "big:local"
        return file.read_bytes() if file.exists() else None

    def replace(self, old: str, new: str) -> None:
        """Another script from now on."""
        text = Path(self.cli).read_text()
        assert old in text
        Path(self.cli).write_text(text.replace(old, new))

    def said(self, name: str) -> str:
        file = self.folder / name
        return file.read_text() if file.exists() else ""

    def mark(self, name: str) -> None:
        (self.folder / name).touch()


class LocalFleet:
    """Nodes that are this machine, each with an engine of its own."""

    def __init__(self, nodes: Sequence[Node]) -> None:
        self.links = {node.name: LocalLink(node) for node in nodes}

    def link(self, node: str) -> LocalLink:
        return self.links[node]

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self.links)

    async def close(self) -> None:
        for link in self.links.values():
            await link.close()


def engines(folder: Path, count: int, *, address: str = "127.0.0.{}") -> tuple[list[Engine], Cluster, LocalFleet]:
    """n1, n2, ... with addresses that only this machine has."""
    made, nodes = [], []
    for i in range(1, count + 1):
        engine = Engine(f"n{i}", folder / f"n{i}")
        engine.folder.mkdir()
        script = Path(engine.cli)
        script.write_text(SCRIPT.replace("{state}", str(engine.folder)))
        script.chmod(script.stat().st_mode | stat.S_IXUSR)
        made.append(engine)
        nodes.append(
            Node(engine.name, "local", fabric_address=address.format(i + 10) or None, container_cli=engine.cli)
        )
    return made, Cluster("t", "cluster.toml", tuple(nodes)), LocalFleet(nodes)
