"""Runs on a node: the container engine, its version, what it can run, and the images that were asked for.

docker is asked by the socket that its command line would use, which saves a process for each question; where the
socket does not let us, and for every other engine, the command line is asked.
"""

from __future__ import annotations

import json
import os
import re
import socket
import threading
import time
from typing import TYPE_CHECKING

from console.probe.facts_ground import (
    MAX_OUTPUT,
    PROC,
    Facts,
    Missing,
    checked,
    one_line,
    read,
    run,
    silent,
    which,
    word,
)

if TYPE_CHECKING:
    from typing import Any

NO_IMAGE = re.compile(r"no such image|not known|no image|not found|does not exist", re.I)
PLAIN_REFERENCE = re.compile(r"\w[\w.\-]*(?:[/:@]+[\w.\-]+)*\Z", re.A)


class NotBySocket(Exception):
    """The command line has to be asked."""


class Refused(Missing):
    """The engine answered with an error. status: HTTP's."""

    def __init__(self, status: int, said: str) -> None:
        super().__init__(said)
        self.status = status


def command(facts: Facts) -> str:
    path = which(facts.cli)
    if path is None:
        raise Missing(f"{facts.cli} is not installed")
    return path


def socket_path(cli: str) -> str:
    """The socket of docker's own command line: DOCKER_HOST, a context, the usual places."""
    if os.path.basename(cli) != "docker":
        raise NotBySocket
    told = os.environ.get("DOCKER_HOST", "")
    if told:
        if not told.startswith("unix://"):
            raise NotBySocket
        return told[len("unix://") :]
    if os.environ.get("DOCKER_CONTEXT", "default") != "default":
        raise NotBySocket
    folder = os.environ.get("DOCKER_CONFIG") or os.path.expanduser("~/.docker")
    if (json.loads(word(folder + "/config.json") or "{}") or {}).get("currentContext", "default") != "default":
        raise NotBySocket
    return "/var/run/docker.sock"


def by_socket(facts: Facts, target: str) -> Any:
    """The engine's answer to a GET. Raises NotBySocket; Missing where it is silent, Refused with its words."""
    try:
        path = socket_path(facts.cli)
        line = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        line.settimeout(facts.limit_s)
        line.connect(path)
    except (OSError, ValueError, AttributeError):
        raise NotBySocket from None
    data = bytearray()
    end = time.monotonic() + facts.limit_s
    with line:
        try:
            line.sendall(f"GET {target} HTTP/1.0\r\nHost: localhost\r\n\r\n".encode())
            while len(data) <= MAX_OUTPUT and not whole(data):
                block = line.recv(1 << 16)
                if not block:
                    break
                data += block
                if time.monotonic() > end:
                    raise silent(facts.cli, facts.limit_s)
        except socket.timeout:  # noqa: UP041 - another class than TimeoutError before Python 3.10
            raise silent(facts.cli, facts.limit_s) from None
        except OSError as error:
            raise Missing(f"{facts.cli}: {path}: {error.strerror}") from None
    head, _, body = bytes(data).partition(b"\r\n\r\n")
    words = head.split(b" ", 2)
    if len(words) < 2 or not words[1].isdigit() or re.search(rb"(?mi)^transfer-encoding:", head):
        raise NotBySocket
    text = body.decode("utf-8", "replace")
    if words[1] != b"200":
        raise Refused(int(words[1]), f"{facts.cli}: {one_line(text) or words[1].decode()}")
    try:
        return json.loads(text)
    except ValueError:
        raise Missing(f"{facts.cli} did not answer in JSON") from None


def whole(data: bytearray) -> bool:
    """True once an answer is there as far as its headers say; without a length its end is the connection's."""
    head, mark, body = bytes(data).partition(b"\r\n\r\n")
    size = re.search(rb"(?mi)^content-length:[ \t]*(\d{1,9})", head) if mark else None
    return size is not None and len(body) >= int(size.group(1))


def info(facts: Facts) -> Any:
    path = command(facts)
    try:
        return by_socket(facts, "/info")
    except NotBySocket:
        out = checked([path, "info", "--format", "{{json .}}"], facts.limit_s)
    try:
        return json.loads(out)
    except ValueError:
        raise Missing(f"{facts.cli} info did not answer in JSON") from None


def inspected(facts: Facts, reference: str) -> dict[str, Any] | None:
    """An image as its engine inspects it; None where there is no such image. Raises Missing."""
    path = command(facts)
    try:
        if not PLAIN_REFERENCE.match(reference) or ".." in reference:
            raise NotBySocket
        found = by_socket(facts, f"/images/{reference}/json")
    except Refused as error:
        if error.status == 404:
            return None
        raise
    except NotBySocket:
        status, out, err = run([path, "image", "inspect", "--", reference], facts.limit_s)
        if status != 0:
            if NO_IMAGE.search(err):
                return None
            raise Missing(one_line(err) or f"image inspect: exit status {status}") from None
        try:
            found = json.loads(out)[0]
        except (ValueError, KeyError, IndexError, TypeError):
            raise Missing(f"{facts.cli} image inspect did not answer in JSON") from None
    if not isinstance(found, dict):
        raise Missing(f"{facts.cli} image inspect did not answer with an object")
    return found


def gather_container(facts: Facts) -> None:
    names = ("container_cli", "container_version", "container_runtimes", "storage_driver", "nvidia_runtime")
    command(facts)
    facts.put(container_cli=facts.cli)
    said = info(facts)
    if not isinstance(said, dict):
        raise Missing(f"{facts.cli} info did not answer with an object")
    if said.get("ServerErrors"):
        raise Missing(one_line("; ".join(str(e) for e in said["ServerErrors"])))
    host, store = said.get("host") or {}, said.get("store") or {}
    version = said.get("ServerVersion") or (said.get("version") or {}).get("Version")
    runtimes = sorted(said.get("Runtimes") or {}) or [r for r in [(host.get("ociRuntime") or {}).get("name")] if r]
    driver = said.get("Driver") or store.get("graphDriverName")
    root = said.get("DockerRootDir") or store.get("graphRoot")
    for name, value in (("container_version", version), ("storage_driver", driver)):
        if value:
            facts.put(**{name: value})
        else:
            facts.lack([name], f"{facts.cli} info does not say")
    facts.put(container_runtimes=runtimes)
    path = hook_path()
    hook = any(which(name, path) for name in ("nvidia-container-runtime-hook", "nvidia-container-cli"))
    cdi = any(os.path.exists(folder + "/nvidia.yaml") for folder in ("/etc/cdi", "/var/run/cdi"))
    facts.put(nvidia_runtime="nvidia" in runtimes or hook or cdi)
    if root:
        free(facts, root, facts.looker.ask("free", root))
    facts.lack(names, f"{facts.cli} info does not say")


class Images:
    """Every image that was asked for, inspected once for all gatherers, all at once."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._found: dict[str, dict[str, Any] | Missing | None] | None = None

    def all(self, facts: Facts) -> dict[str, dict[str, Any] | Missing | None]:
        command(facts)
        with self._lock:
            if self._found is None:
                self._found = self._ask(facts)
            return self._found

    def _ask(self, facts: Facts) -> dict[str, dict[str, Any] | Missing | None]:
        found: dict[str, dict[str, Any] | Missing | None] = {}

        def ask(reference: str) -> None:
            try:
                found[reference] = inspected(facts, reference)
            except Missing as error:
                found[reference] = error

        threads = [threading.Thread(target=ask, args=(r,), daemon=True) for r in facts.images]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(facts.limit_s + 1)
        return dict(found)


IMAGES = Images()


def full_id(image: dict[str, Any]) -> str:
    """podman writes an Id without its algorithm."""
    found = str(image["Id"])
    return "sha256:" + found if re.match(r"[0-9a-f]{64}\Z", found) else found


def gather_images(facts: Facts) -> None:
    ids: dict[str, str] = {}
    for reference, found in IMAGES.all(facts).items():
        if isinstance(found, Missing):
            raise found
        found_id = full_id(found) if found and "Id" in found else ""
        if re.match(r"sha256:[0-9a-f]{64}\Z", found_id):
            ids[reference] = found_id
    facts.put(image_ids=ids)


def free(facts: Facts, name: str, look: int) -> None:
    """The free bytes at a path that the looker was asked about."""
    try:
        size = int(facts.looker.answer(look, facts.limit_s))
    except Missing as error:
        with facts.lock:
            facts.missing[f"disk {name}"] = one_line(str(error))
        return
    with facts.lock:
        facts.values.setdefault("disk_free_bytes", {"v": {}})["v"][name] = size


def daemon() -> str:
    """The process whose limits containers start from."""
    found = daemons()
    if not found:
        raise Missing("neither dockerd nor containerd runs, whose limits containers get")
    return found[0]


def daemons() -> list[str]:
    """Process ids of the container engine, dockerd before containerd."""
    names = {pid: word(f"{PROC}/{pid}/comm") for pid in os.listdir(PROC) if pid.isdigit()}
    return [pid for wanted in ("dockerd", "containerd") for pid, name in names.items() if name == wanted]


def hook_path() -> str | None:
    """Where the container engine looks for its GPU hook: the PATH it was started with, else this one."""
    for pid in daemons()[:1]:
        try:
            for item in read(f"{PROC}/{pid}/environ").split("\0"):
                if item.startswith("PATH="):
                    return item[5:]
        except Missing:
            break  # another user's process
    return None
