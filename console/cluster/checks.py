"""What a type cannot say of a cluster file: names that ssh would read as options, addresses, interfaces, paths."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Mapping
from typing import Final

from console.base.errors import FileError
from console.base.toml_check import has_control, named
from console.base.toml_locate import Document, Path

_HOST: Final = re.compile(r"[A-Za-z0-9_.\-:%]+")
_USER: Final = re.compile(r"[A-Za-z0-9_.][A-Za-z0-9_.\-@\\]*\$?")
_INTERFACE: Final = re.compile(r"[A-Za-z0-9_.:\-]{1,15}")  # the kernel's IFNAMSIZ less the ending NUL
_HCA: Final = re.compile(r"[A-Za-z0-9_.\-]+(?::[0-9]{1,3})?")
_NAME: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.\-]*")
LONGEST_NAME: Final = 63


def host_fault(value: str) -> str | None:
    """What is wrong with a host's name, or None."""
    if has_control(value) or " " in value:
        return "must hold no blanks and no control codes"
    if value.startswith("-"):
        return "must not begin with - (ssh would read an option)"
    if "@" in value:
        return "must be the host alone; the user goes into user ="
    if value.count(":") == 1:
        return "must be the host alone; the port goes into port ="
    if not _HOST.fullmatch(value) or len(value) > 253:
        return "must be an ssh alias, a host name or an address"
    return None


def name_fault(value: str) -> str | None:
    """What is wrong with a node's own name, or None: it goes into container labels and file names."""
    if not _NAME.fullmatch(value) or len(value) > LONGEST_NAME:
        return f"must be 1 to {LONGEST_NAME} letters, digits, _ . or -, and not begin with . or -"
    return None


def title_fault(value: str) -> str | None:
    """What is wrong with the cluster's name, or None."""
    return "must be one line without control codes" if has_control(value) or not value.strip() else None


def user_fault(value: str) -> str | None:
    """What is wrong with a user's name, or None."""
    return None if _USER.fullmatch(value) else "must be a user name, without blanks and not beginning with -"


def address_fault(value: str) -> str | None:
    """What is wrong with a fabric address, or None."""
    try:
        address = ipaddress.ip_address(value)
    except ValueError:
        return "must be an IP address without a prefix"
    if address.is_unspecified or address.is_multicast:
        return "must be the address of one node"
    return None


def interface_fault(value: str) -> str | None:
    """What is wrong with an interface's name, or None."""
    fits = _INTERFACE.fullmatch(value) and not value.startswith("-")
    return None if fits else "must be the name of a network interface, at most 15 characters"


def hca_fault(value: str) -> str | None:
    """What is wrong with an RDMA port, or None."""
    return None if _HCA.fullmatch(value) and not value.startswith("-") else 'must be device:port, as in "rocep1s0f0:1"'


def cache_fault(value: str) -> str | None:
    """What is wrong with a folder on the node that is to be mounted, or None."""
    if has_control(value) or ":" in value or "," in value:
        return "must hold no control codes, no : and no , (they would end the path in docker's syntax)"
    return None if value.startswith(("/", "~/")) else "must be absolute or begin with ~/ (the home of the node's user)"


def listen_fault(value: str) -> str | None:
    """What is wrong with the address that the head listens on, or None."""
    return host_fault(value)


def config_fault(value: str) -> str | None:
    """What is wrong with the path of an ssh configuration, or None."""
    return "must be a path without control codes" if has_control(value) or value.startswith("-") else None


_SHARED: Final[dict[str, Callable[[str], str | None]]] = {
    "user": user_fault,
    "fabric_interface": interface_fault,
    "hf_cache": cache_fault,
}
_TOP: Final = _SHARED | {"name": title_fault, "api_host": listen_fault, "ssh_config": config_fault}


def value_errors(doc: Document) -> list[FileError]:
    """All that is wrong with single values, but for host, name and address: those are checked when ranges are read."""
    errors: list[FileError] = []
    _table(doc, doc.data, (), _TOP, errors)
    nodes = doc.data.get("nodes")
    for i, node in enumerate(nodes if isinstance(nodes, list) else []):
        if not isinstance(node, Mapping):
            continue
        _table(doc, node, ("nodes", i), _SHARED, errors)
        hcas = node.get("hcas")
        for j, hca in enumerate(hcas if isinstance(hcas, list) else []):
            if isinstance(hca, str) and hca and (fault := hca_fault(hca)):
                errors.append(doc.error(f"{fault}, found {named(hca)}", ("nodes", i, "hcas", j)))
    return errors


def _table(
    doc: Document,
    table: Mapping[str, object],
    path: Path,
    checks: Mapping[str, Callable[[str], str | None]],
    errors: list[FileError],
) -> None:
    for key, check in checks.items():
        value = table.get(key)
        if isinstance(value, str) and value and (fault := check(value)):
            errors.append(doc.error(f"{fault}, found {named(value)}", (*path, key)))
