"""A cluster as the text of a cluster file, with comments for the one who will edit it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import TypeVar

from console.cluster.model import Cluster, Node

T = TypeVar("T", str, int)
_HEAD = """\
# Where ranks run. Read with --cluster FILE, or from nightdeck/cluster.toml in the configuration folder.
# Values at the top are for all nodes; a node's own value wins. ~/.ssh/config applies as for ssh.
"""


def toml_text(text: str) -> str:
    """A text as a TOML basic string."""
    out = []
    for char in text:
        if char in '"\\':
            out.append("\\" + char)
        elif char < " " or "\x7f" <= char <= "\x9f":
            out.append(f"\\u{ord(char):04X}")
        else:
            out.append(char)
    return '"' + "".join(out) + '"'


def render_cluster(cluster: Cluster) -> str:
    """The text of a cluster file; reading it gives the same nodes. Unknown keys (`extra`) are not written."""
    lines = [*_HEAD.splitlines(), f"name = {toml_text(cluster.name)}"]
    user = _common(cluster.nodes, lambda n: n.user)
    port = _common(cluster.nodes, lambda n: n.port)
    cli = _common(cluster.nodes, lambda n: n.container_cli) or "docker"
    interface = _common(cluster.nodes, lambda n: n.fabric_interface)
    cache = _common(cluster.nodes, lambda n: n.hf_cache)
    if user is not None:
        lines.append(f"user = {toml_text(user)}")
    if port is not None:
        lines.append(f"port = {port}  # of SSH")
    lines.append(f"container_cli = {toml_text(cli)}  # or podman, nerdctl")
    if interface is not None:
        lines.append(f"fabric_interface = {toml_text(interface)}  # the one that ranks talk over")
    if cache is not None:
        lines.append("# On every node; mounted where the image's HF_HOME is.")
        lines.append(f"hf_cache = {toml_text(cache)}")
    lines.append("# Where the head listens; 127.0.0.1 keeps the API to the head and the console's own tunnel.")
    lines.append(f"api_host = {toml_text(cluster.api_host)}")
    if cluster.ssh_config is not None:
        lines.append(f"ssh_config = {toml_text(cluster.ssh_config)}  # instead of ~/.ssh/config")
    if cluster.env:
        lines += ["", "[env]  # for every rank of every recipe"]
        lines += [f"{name} = {toml_text(value)}" for name, value in cluster.env.items()]
    for node in cluster.nodes:
        lines += ["", "[[nodes]]", f"host = {toml_text(node.host)}  # how the console reaches it"]
        if node.name != node.host:
            lines.append(f"name = {toml_text(node.name)}")
        if node.user is not None and node.user != user:
            lines.append(f"user = {toml_text(node.user)}")
        if node.port is not None and node.port != port:
            lines.append(f"port = {node.port}")
        if node.fabric_address is not None:
            lines.append(f"fabric_address = {toml_text(node.fabric_address)}  # how ranks reach each other")
        if node.fabric_interface is not None and node.fabric_interface != interface:
            lines.append(f"fabric_interface = {toml_text(node.fabric_interface)}")
        if node.hcas is not None:
            lines.append(f"hcas = [{', '.join(toml_text(h) for h in node.hcas)}]")
        if node.container_cli != cli:
            lines.append(f"container_cli = {toml_text(node.container_cli)}")
        if node.hf_cache is not None and node.hf_cache != cache:
            lines.append(f"hf_cache = {toml_text(node.hf_cache)}")
    return "\n".join(lines) + "\n"


def _common(nodes: Sequence[Node], get: Callable[[Node], T | None]) -> T | None:
    """The value most nodes have, where every node has one; else None: a default could not be taken back."""
    values = [get(n) for n in nodes]
    if not values or any(v is None for v in values):
        return None
    return Counter(v for v in values if v is not None).most_common(1)[0][0]
