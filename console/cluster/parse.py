"""The text of a cluster file as a Cluster, or all that is wrong with it."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from console.base.errors import FileError
from console.base.findings import Finding, Severity
from console.base.toml_check import FileErrors, did_you_mean, env_errors, named, shape_errors
from console.base.toml_locate import Document, Path, key_text, load_document
from console.cluster.checks import address_fault, host_fault, name_fault, value_errors
from console.cluster.model import LOCAL, Cluster, Node
from console.cluster.ranges import RangeError, expand
from console.cluster.schema import CLUSTER_KEYS, NODE_KEYS, ClusterTable, NodeTable


class ClusterErrors(FileErrors):
    """All errors of a cluster file."""


def parse_cluster(text: str, file: str) -> Cluster:
    """Read a cluster file. Raises ClusterErrors, which holds every error of the file with its line and column."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        line = text.count("\n", 0, error.start) + 1
        raise ClusterErrors([FileError("holds half a character (a lone surrogate)", file=file, line=line)]) from error
    try:
        doc = load_document(text, file)
    except FileError as error:
        raise ClusterErrors([error]) from error
    errors: list[FileError] = []
    table: ClusterTable | None = None
    try:
        table = ClusterTable.model_validate(doc.data)
    except ValidationError as error:
        errors.extend(shape_errors(doc, error, what="cluster file"))
    errors.extend(value_errors(doc))
    env: Any = doc.data.get("env", {})
    errors.extend(env_errors(doc, ("env",), env))
    names = _names(doc, errors)
    extra, findings = _unknown(doc)
    if errors or table is None:
        raise ClusterErrors({(e.line, e.column, e.key, e.message): e for e in errors}.values())
    return Cluster(
        name=table.name,
        file=file,
        nodes=tuple(_node(table, table.nodes[n.entry], n) for n in names),
        api_host=table.api_host,
        ssh_config=table.ssh_config,
        env=dict(env),
        extra=extra,
        findings=tuple(findings),
    )


def local_cluster() -> Cluster:
    """This machine alone, without SSH; its API listens on the machine itself."""
    node = Node(name=LOCAL, host=LOCAL, fabric_address="127.0.0.1")
    return Cluster(name=LOCAL, file="", nodes=(node,), api_host="127.0.0.1")


@dataclass(frozen=True, slots=True)
class _Named:
    """One node after ranges are read; `entry` is its table's index in the file."""

    entry: int
    host: str
    name: str
    address: str | None


def _names(doc: Document, errors: list[FileError]) -> list[_Named]:
    nodes = doc.data.get("nodes")
    out: list[_Named] = []
    for i, node in enumerate(nodes if isinstance(nodes, list) else []):
        if not isinstance(node, Mapping):
            continue
        hosts = _expanded(doc, ("nodes", i, "host"), node.get("host"), host_fault, errors)
        if not hosts:
            continue
        own = _expanded(doc, ("nodes", i, "name"), node.get("name"), name_fault, errors)
        addresses = _expanded(doc, ("nodes", i, "fabric_address"), node.get("fabric_address"), address_fault, errors)
        for key, values in (("name", own), ("fabric_address", addresses)):
            if values and len(values) != len(hosts):
                message = f"stands for {len(values)}, and host stands for {len(hosts)}"
                errors.append(doc.error(message, ("nodes", i, key)))
        for j, host in enumerate(hosts):
            name = own[j] if j < len(own) else host
            out.append(_Named(i, host, name, addresses[j] if j < len(addresses) else None))
    _twice(doc, out, errors)
    return out


def _expanded(
    doc: Document, path: Path, value: object, check: Callable[[str], str | None], errors: list[FileError]
) -> list[str]:
    """The values that a range stands for; none where the value is absent or wrong."""
    if not isinstance(value, str) or not value:
        return []
    try:
        values = expand(value)
    except RangeError as error:
        errors.append(doc.error(f"{error}, found {named(value)}", path))
        return []
    for one in values:
        if fault := check(one):
            errors.append(doc.error(f"{fault}, found {named(one)}", path))
            return []
    return values


def _twice(doc: Document, nodes: list[_Named], errors: list[FileError]) -> None:
    seen: dict[tuple[str, str], tuple[int, str]] = {}
    for node in nodes:
        keys = [("host", node.host)]
        if node.name != node.host:
            keys.append(("name", node.name))
        if node.address is not None:
            address = ipaddress.ip_address(node.address)
            keys.append(("fabric_address", str(address)))
            if address.is_loopback and len(nodes) > 1:
                message = f"{node.address} is this node alone; ranks on other nodes could not reach it"
                errors.append(doc.error(message, ("nodes", node.entry, "fabric_address")))
        for kind, value in keys:
            # a name may not be another node's host either: commands take names
            space = "name" if kind == "host" and node.name == node.host else kind
            for one in {kind, space}:
                if (one, value) in seen:
                    line, _ = doc.place(("nodes", *seen[one, value]), value=True)
                    message = f"named twice: {named(value)} stands on line {line} already"
                    errors.append(doc.error(message, ("nodes", node.entry, kind)))
                    break
            seen.setdefault((kind, value), (node.entry, kind))
            seen.setdefault((space, value), (node.entry, kind))


def _node(table: ClusterTable, node: NodeTable, named_: _Named) -> Node:
    return Node(
        name=named_.name,
        host=named_.host,
        user=node.user or table.user,
        port=node.port or table.port,
        fabric_address=named_.address,
        fabric_interface=node.fabric_interface or table.fabric_interface,
        hcas=None if node.hcas is None else tuple(node.hcas),
        container_cli=node.container_cli or table.container_cli,
        hf_cache=node.hf_cache or table.hf_cache,
    )


def _unknown(doc: Document) -> tuple[dict[str, Any], list[Finding]]:
    extra: dict[str, Any] = {}
    findings: list[Finding] = []

    def look(table: Mapping[str, Any], known: tuple[str, ...], path: Path) -> None:
        for key, value in table.items():
            if key in known:
                continue
            here = (*path, key)
            line, column = doc.place(here)
            message = f"{doc.file}:{line}:{column}: {key_text(here)}: unknown key, kept without effect"
            hint = did_you_mean(key, [k for k in known if k not in table])
            findings.append(Finding("unknown-key", Severity.WARN, message, remedy=hint))
            extra[key_text(here)] = value

    look(doc.data, CLUSTER_KEYS, ())
    nodes = doc.data.get("nodes")
    for i, node in enumerate(nodes if isinstance(nodes, list) else []):
        if isinstance(node, Mapping):
            look(node, NODE_KEYS, ("nodes", i))
    return extra, findings
