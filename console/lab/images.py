"""The images that a node holds, and how one travels: `docker save` and `docker load`."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

# The images that public recipes name; ENTRYPOINT as in vllm/vllm-openai.
DEFAULT_IMAGES: Final = ("dsv41-flash:local", "vllm/vllm-openai:latest")
_SAVED_BYTES: Final = 6 << 20  # small enough for a test, large enough to see it travel


@dataclass(frozen=True, slots=True)
class Image:
    """One image. size: bytes, as docker would say it of the real one. created: nanoseconds since the epoch."""

    reference: str
    id: str
    entrypoint: tuple[str, ...] = ("vllm", "serve")
    env: tuple[str, ...] = (
        "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        "CUDA_VERSION=13.0.2",
        "HF_HOME=/root/.cache/huggingface",
    )
    labels: dict[str, str] = field(default_factory=dict)
    size: int = 24_318_402_560
    created: int = 1_758_153_600_000_000_000

    def inspect(self) -> dict[str, object]:
        return {
            "Id": self.id,
            "RepoTags": [self.reference],
            "RepoDigests": [],
            "Created": "2026-09-18T00:00:00Z",
            "Config": {"Env": list(self.env), "Entrypoint": list(self.entrypoint), "Cmd": None, "Labels": self.labels},
            "Architecture": "arm64",
            "Os": "linux",
            "Size": self.size,
            "GraphDriver": {"Name": "overlay2", "Data": {}},
            "RootFS": {"Type": "layers", "Layers": ["sha256:" + hashlib.sha256(self.id.encode()).hexdigest()]},
        }


class ImageStore:
    """Image references to images of one node."""

    def __init__(self, references: Iterable[str]) -> None:
        self._images: dict[str, Image] = {}
        for reference in references:
            self.add(reference)

    @staticmethod
    def normal(reference: str) -> str:
        """The reference with `:latest` where no tag is named."""
        last = reference.rsplit("/", 1)[-1]
        return reference if ":" in last or "@" in last else reference + ":latest"

    def add(self, reference: str) -> Image:
        """The same reference is the same image on every node: the id comes from its name."""
        name = self.normal(reference)
        image = Image(name, "sha256:" + hashlib.sha256(name.encode()).hexdigest())
        self._images[name] = image
        return image

    def remove(self, reference: str) -> bool:
        return self._images.pop(self.normal(reference), None) is not None

    def all(self) -> list[Image]:
        return list(self._images.values())

    def find(self, reference: str) -> Image | None:
        """By reference, id or the beginning of an id."""
        if found := self._images.get(self.normal(reference)):
            return found
        short = reference.removeprefix("sha256:")
        if len(short) >= 6:
            for image in self._images.values():
                if image.id.removeprefix("sha256:").startswith(short):
                    return image
        return None


def saved(images: Iterable[Image]) -> bytes:
    """The tar that `docker save` writes: a manifest, a config per image and one layer."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        manifest = []
        layer = hashlib.sha256(b"layer").digest() * (_SAVED_BYTES // 32)
        _add(tar, "layer.tar", layer)
        for image in images:
            config = image.id.removeprefix("sha256:") + ".json"
            _add(tar, config, json.dumps(image.inspect()).encode())
            manifest.append({"Config": config, "RepoTags": [image.reference], "Layers": ["layer.tar"]})
        _add(tar, "manifest.json", json.dumps(manifest).encode())
    return out.getvalue()


def loaded(data: bytes) -> list[str]:
    """References in a saved tar. Raises ValueError with docker's words when it is none."""
    try:
        with tarfile.open(fileobj=io.BytesIO(data), mode="r:*") as tar:
            member = tar.extractfile("manifest.json")
            entries = json.loads(member.read()) if member else []
        return [str(tag) for entry in entries for tag in entry["RepoTags"]]
    except (tarfile.TarError, KeyError, OSError, TypeError) as e:
        raise ValueError("open /var/lib/docker/tmp/docker-import/repositories: no such file or directory") from e


def _add(tar: tarfile.TarFile, name: str, data: bytes) -> None:
    info = tarfile.TarInfo(name)
    info.size, info.mtime = len(data), int(time.time())
    tar.addfile(info, io.BytesIO(data))
