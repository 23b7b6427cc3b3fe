"""The stub engine as an image: compiled and packed here, without a network, equal to the byte each time."""

from __future__ import annotations

import hashlib
import io
import json
import os
import shutil
import subprocess
import tarfile
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.testbed.needs import tool
from tests.testbed.net import BedError

REFERENCE = "dsv41-flash:local"
SOURCES = Path(__file__).parent / "stub"
# What `preflight --deep` starts in an image: a python3 that works for a second and says how fast it was.
BURN = """#!/bin/sh
[ "$1" = -c ] || { echo "python3: this one only burns" >&2; exit 2; }
sleep 1
echo "burn 82.41"
"""
APPLETS = ("sh", "ls", "cat", "ps", "kill", "sleep", "wget", "env", "id", "mount", "stat", "touch", "mkdir", "rm")


@dataclass(frozen=True, slots=True)
class Archive:
    """An image archive that `docker load` takes. image_id: the Id that every host will report (`sha256:...`)."""

    path: Path
    image_id: str
    reference: str


def archive(reference: str = REFERENCE, *, variant: str = "") -> Archive:
    """The image under this name; another `variant` has another Id. BedError: no C compiler here.

    Entrypoint ["vllm", "serve"], as the base image of the seed's recipe has. Kept in a cache folder: the second call
    costs milliseconds.
    """
    cache = Path(tempfile.gettempdir()) / f"nightdeck-testbed-{os.geteuid()}"
    cache.mkdir(mode=0o700, exist_ok=True)
    busybox = _busybox()
    what = hashlib.sha256(Path(__file__).read_bytes())
    for source in sorted(SOURCES.glob("*.[ch]")):
        what.update(source.read_bytes())
    what.update(repr((reference, variant, busybox and busybox.stat().st_size)).encode())
    target = cache / f"{what.hexdigest()[:24]}.tar"
    if not target.exists():
        with tempfile.TemporaryDirectory(dir=cache) as folder:
            fresh = Path(folder) / "image.tar"
            _pack(fresh, compile_stub(Path(folder)), busybox, reference, variant)
            fresh.rename(target)
    return opened(target)


def opened(path: Path) -> Archive:
    """An archive that lies on disk."""
    with tarfile.open(path) as packed:
        manifest = packed.extractfile("manifest.json")
        assert manifest is not None
        entry = json.load(manifest)[0]
    return Archive(path, f"sha256:{str(entry['Config']).removesuffix('.json')}", str(entry["RepoTags"][0]))


def compile_stub(folder: Path) -> Path:
    """The stub engine as a static program in `folder`."""
    compiler = tool("cc") or tool("gcc")
    if compiler is None:
        raise BedError("the stub engine needs a C compiler (gcc and libc6-dev, see .ci/run)")
    target = folder / "vllm"
    argv = [compiler, "-static", "-O1", "-s", "-Wall", "-Wextra", "-Wno-format-truncation", "-o", str(target)]
    argv += [str(source) for source in sorted(SOURCES.glob("*.c"))]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise BedError(f"the stub engine does not compile: {done.stderr[-2000:]}")
    return target


def _busybox() -> Path | None:
    path = tool("busybox")
    if path is None:
        return None
    with Path(path).open("rb") as program:
        head = program.read(1 << 12)
    return None if b"/lib64/ld-linux" in head or b"/lib/ld-linux" in head else Path(path)


def _pack(target: Path, stub: Path, busybox: Path | None, reference: str, variant: str) -> None:
    layer = io.BytesIO()
    with tarfile.open(fileobj=layer, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for folder in ("bin", "etc", "root", "tmp", "usr", "usr/bin", "usr/local", "usr/local/bin", "root/.cache"):
            _add(tar, folder, kind=tarfile.DIRTYPE, mode=0o1777 if folder == "tmp" else 0o755)
        _add(tar, "etc/passwd", b"root:x:0:0:root:/root:/bin/sh\n")
        _add(tar, "etc/group", b"root:x:0:\n")
        _add(tar, "usr/local/bin/vllm", stub.read_bytes(), mode=0o755)
        if busybox:
            _add(tar, "usr/bin/python3", BURN.encode(), mode=0o755)
            _add(tar, "bin/busybox", busybox.read_bytes(), mode=0o755)
            for applet in APPLETS:
                _add(tar, f"bin/{applet}", kind=tarfile.SYMTYPE, link="busybox")
    packed = target.with_suffix(".layer")
    packed.write_bytes(layer.getvalue())
    labels = {"variant": variant} if variant else {}
    env = ["PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"]
    pack(target, packed, reference, {"Entrypoint": ["vllm", "serve"], "Env": env, "Labels": labels})


def pack(target: Path, layer: Path, reference: str, settings: Mapping[str, object]) -> str:
    """Write an image archive of one layer (an uncompressed tar) and return the image's Id without `sha256:`."""
    with layer.open("rb") as source:
        digest = hashlib.file_digest(source, "sha256").hexdigest()
    config = json.dumps(
        {
            "architecture": "arm64" if os.uname().machine == "aarch64" else "amd64",
            "os": "linux",
            "created": "2026-09-18T00:00:00Z",
            "config": settings,
            "rootfs": {"type": "layers", "diff_ids": [f"sha256:{digest}"]},
            "history": [{"created": "2026-09-18T00:00:00Z", "created_by": "nightdeck's testbed"}],
        },
        sort_keys=True,
    ).encode()
    image_id = hashlib.sha256(config).hexdigest()
    manifest = [{"Config": f"{image_id}.json", "RepoTags": [reference], "Layers": ["layer.tar"]}]
    with tarfile.open(target, "w", format=tarfile.USTAR_FORMAT) as tar:
        _add(tar, f"{image_id}.json", config)
        tar.add(layer, "layer.tar")
        _add(tar, "manifest.json", json.dumps(manifest).encode())
    return image_id


def _add(
    tar: tarfile.TarFile,
    name: str,
    data: bytes = b"",
    *,
    mode: int = 0o644,
    kind: bytes = tarfile.REGTYPE,
    link: str = "",
) -> None:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode, entry.type, entry.linkname = len(data), mode, kind, link
    tar.addfile(entry, io.BytesIO(data))


def forget() -> None:
    """Empty the cache folder."""
    shutil.rmtree(Path(tempfile.gettempdir()) / f"nightdeck-testbed-{os.geteuid()}", ignore_errors=True)
