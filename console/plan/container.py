"""The container's command line: `docker run` with the flags that all working eight-node launches share."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from console.base.errors import UsageError
from console.base.text import clean_line
from console.plan.mounts import Bind
from console.recipe.model import Recipe

NOFILE: Final = 1_048_576  # open files: 1024 and 65535 were too few for NCCL at eight ranks (published)
_NAME_UNFIT: Final = re.compile(r"[^a-zA-Z0-9_.-]+")


@dataclass(frozen=True, slots=True)
class Adapt:
    """What the nodes' facts change in the flags. gpus: docker's --gpus value, None for no GPU; nofile: open files."""

    gpus: str | None = "all"
    infiniband: bool = True
    nofile: int = NOFILE
    memlock: bool = True


def container_name(slug: str, boot: int, rank: int) -> str:
    """`nd-<slug>-b<boot>-r<rank>` in docker's alphabet [a-zA-Z0-9_.-]. A slug that had to be changed or cut gets six
    hex digits of its sha256, so that two slugs never share a name."""
    clean = _NAME_UNFIT.sub("-", slug).strip("-.") or "recipe"
    if clean != slug or len(clean) > 80:
        clean = f"{clean[:80]}-{hashlib.sha256(slug.encode('utf-8', 'surrogatepass')).hexdigest()[:6]}"
    return f"nd-{clean}-b{boot}-r{rank}"


def run_argv(
    recipe: Recipe,
    *,
    cli: str,
    name: str,
    labels: Mapping[str, str],
    env: Mapping[str, str],
    binds: Sequence[Bind],
    entrypoint: Sequence[str] | None,
    engine_argv: Sequence[str],
    adapt: Adapt,
) -> tuple[str, ...]:
    """The argv that is executed on the node. The engine is the container's main process behind --init; no --rm, so
    that a dead rank keeps its log; no restart policy, since a rank alone never rejoins. Environment values can be
    read in `docker inspect` on the node; those that are secret leave the command line before it is sent (`secret_env`).
    Raises UsageError for an image, a GPU choice or a model that would be read as a flag."""
    for what, word in (("docker_image", recipe.docker_image), ("gpus", recipe.gpus), ("model", recipe.model)):
        if not word or word.startswith("-") or any(c.isspace() or ord(c) < 32 for c in word):
            raise UsageError(
                f"{what} {word!r} cannot be used: it is empty, begins with - or has blanks", where=recipe.file
            )
    out = [cli, "run", "-d", "--name", name, "--pull", "never", "--init", "--network", "host", "--ipc", "host"]
    podman = cli.rsplit("/", 1)[-1] == "podman"
    if adapt.gpus is not None:
        out += cdi_words(adapt.gpus) if podman else ["--gpus", adapt.gpus]
    if adapt.infiniband:
        out += ["--device", "/dev/infiniband"]
    out += ["--cap-add", "IPC_LOCK"]
    if adapt.memlock:
        out += ["--ulimit", "memlock=-1"]
    out += ["--ulimit", f"nofile={adapt.nofile}:{adapt.nofile}"]
    if recipe.shm_size and not podman:  # which refuses a size beside the host's own /dev/shm; docker ignores it there
        out += ["--shm-size", recipe.shm_size]
    for key, value in labels.items():
        out += ["--label", f"{key}={clean_line(value, limit=400)}"]
    for bind in binds:
        out += bind.words()
    for key, value in env.items():
        _check_env(key, recipe)
        out += ["-e", f"{key}={value}"]
    command: tuple[str, ...] = ()
    if entrypoint:
        out += ["--entrypoint", entrypoint[0]]
        command = tuple(entrypoint[1:])
    words = (*out, recipe.docker_image, *command, *engine_argv)
    if any("\0" in word for word in words):
        raise UsageError("a NUL character cannot stand on a command line", where=recipe.file)
    return words


def cdi_words(gpus: str) -> list[str]:
    """docker's --gpus value as podman's devices: before version 5 it takes --gpus and hands out nothing.

    all; a count; device=0,1 (indices or UUIDs). Names as `nvidia-ctk cdi generate` writes them."""
    names = gpus.removeprefix("device=").strip('"').split(",") if gpus != "all" else ["all"]
    if len(names) == 1 and names[0].isdecimal() and not gpus.startswith("device="):
        names = [str(i) for i in range(int(names[0]))]
    return [word for name in names for word in ("--device", f"nvidia.com/gpu={name}")]


def _check_env(key: str, recipe: Recipe) -> None:
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_.\-]*", key):
        raise UsageError(f"env {key!r} is no name for a variable", where=recipe.file)
