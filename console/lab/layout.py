"""The files of a lab's folder: what the product reads to reach it, and what each node finds at home."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import tempfile
import tomllib
from collections.abc import Iterable
from pathlib import Path

import asyncssh

from console.lab.images import DEFAULT_IMAGES
from console.lab.machine import Machine

DEFAULT_MODELS = ("deepseek-ai/DeepSeek-V4.1-Flash",)


def write_private(path: Path, data: bytes, mode: int = 0o600) -> None:
    """A file that appears whole, with its mode from the beginning."""
    fd, temporary = tempfile.mkstemp(dir=path.parent)
    with os.fdopen(fd, "wb") as out:
        os.fchmod(fd, mode)
        out.write(data)
    Path(temporary).replace(path)


def discard(folder: Path, patience_s: float = 2.0) -> None:
    """Remove a lab's folder: at once out of the way, and by a process of its own, which is waited for a moment only. A
    hundred nodes are 25,000 files and folders, and a busy disk takes a minute for them."""
    gone = folder.with_name(f"{folder.name}.gone")
    try:
        folder.rename(gone)
    except FileNotFoundError:
        return
    except OSError:
        gone = folder
    null = subprocess.DEVNULL
    child = subprocess.Popen(["rm", "-rf", "--", gone], stdin=null, stdout=null, stderr=null, start_new_session=True)
    with contextlib.suppress(subprocess.TimeoutExpired):
        child.wait(patience_s)


def client_files(
    folder: Path, name: str, nodes: Iterable[tuple[Machine, int, asyncssh.SSHKey]], client: asyncssh.SSHKey
) -> None:
    """cluster.toml, ssh_config, known_hosts and the client's key."""
    hosts, known = [], []
    cluster = [
        f"# A simulated cluster: `nightdeck lab`. Everything in it is as in a real one.\nname = {json.dumps(name)}",
        f'user = "operator"\nssh_config = {json.dumps(str(folder / "ssh_config"))}\ncontainer_cli = "docker"',
        'fabric_interface = "enp1s0f0np0"\nhf_cache = "~/.cache/huggingface"\n',
    ]
    for machine, port, key in nodes:
        hosts.append(f"Host {machine.name}\n  HostName 127.0.0.1\n  Port {port}\n")
        known.append(f"[127.0.0.1]:{port} {key.export_public_key().decode().strip()}\n")
        cluster.append(f'[[nodes]]\nhost = "{machine.name}"\nfabric_address = "{machine.fabric_address}"\n')
    common = (
        f'Host *\n  User operator\n  IdentityFile "{folder}/id"\n  IdentitiesOnly yes\n  IdentityAgent none\n'
        f'  UserKnownHostsFile "{folder}/known_hosts"\n  StrictHostKeyChecking yes\n  BatchMode yes\n'
    )
    write_private(folder / "id", client.export_private_key())
    write_private(folder / "id.pub", client.export_public_key(), 0o644)
    write_private(folder / "known_hosts", "".join(known).encode())
    write_private(folder / "ssh_config", ("".join(hosts) + common).encode())
    write_private(folder / "cluster.toml", "\n".join(cluster).encode(), 0o644)


def node_home(folder: Path, models: Iterable[str], folders: Iterable[str] = ()) -> None:
    """Home with a model cache as the hub's library lays it out, `folders` below it, and the other ones."""
    for name in ("home", "tmp", "run", *(f"home/{below}" for below in folders)):
        (folder / name).mkdir(parents=True, exist_ok=True)
    for model in models:
        if model.startswith("/"):
            continue
        base = folder / "home/.cache/huggingface/hub" / ("models--" + model.replace("/", "--"))
        revision = "5f2e8c0d1a7b4c96b3d2e1f00a9b8c7d6e5f4a3b"
        snapshot = base / "snapshots" / revision
        snapshot.mkdir(parents=True, exist_ok=True)
        (base / "refs").mkdir(exist_ok=True)
        (base / "refs/main").write_text(revision)
        (snapshot / "model.safetensors").write_bytes((2).to_bytes(8, "little") + b"{}")
        (snapshot / "config.json").write_text(
            json.dumps({"architectures": ["DeepseekV41ForCausalLM"], "model_type": "deepseek_v41"})
        )


def known_recipes(folders: Iterable[Path]) -> tuple[set[str], set[str], set[str]]:
    """Images, models, and folders below home that are mounted to be read, as recipes in these folders name them: so
    that each of them can be booted in the lab."""
    images, models, homes = set(DEFAULT_IMAGES), set(DEFAULT_MODELS), set[str]()
    for folder in folders:
        for file in sorted(folder.glob("*/recipe.toml")):
            try:
                recipe = tomllib.loads(file.read_text(encoding="utf-8", errors="replace"))
            except (tomllib.TOMLDecodeError, OSError):
                continue  # a broken recipe is for the console to tell of, not for the lab
            for key, found in (("docker_image", images), ("model", models)):
                if isinstance(value := recipe.get(key), str):
                    found.add(value)
            homes.update(_read_at_home(recipe.get("extra_mounts")))
    return images, models, homes


def _read_at_home(mounts: object) -> Iterable[str]:
    """What is mounted to be written is made by a launch itself."""
    for mount in mounts if isinstance(mounts, list) else ():
        host = mount.get("host") if isinstance(mount, dict) and mount.get("read_only") is True else None
        if isinstance(host, str) and host.startswith("~/") and ".." not in Path(host).parts and "\0" not in host:
            yield host[2:]
