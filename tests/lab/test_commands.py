"""Commands really run on a lab's nodes, and end with their channel."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
from pathlib import Path

import pytest

from console.transport.wrapper import wrapped

from .conftest import Bench, Make


async def test_status_streams_and_input_pass(bench: Make) -> None:
    b = await bench(nodes=1)
    r = await b.run("dgx1", "cat; echo no >&2; exit 7", input=b"\xff\x00yes", encoding=None)
    assert (r.stdout, r.stderr, r.exit_status) == (b"\xff\x00yes", b"no\n", 7)
    assert (await b.run("dgx1", "kill -9 $$")).exit_signal is not None


async def test_a_node_says_who_it_is(bench: Make) -> None:
    b = await bench(nodes=2)
    r = await b.run(
        "dgx2", "hostname; uname -m; id -un; echo $HOME; ip -j addr | grep -c 10.99.0.2; sudo -n true || echo no"
    )
    lines = str(r.stdout).splitlines()
    assert lines[:3] == ["dgx2", "aarch64", "operator"] and lines[3].endswith("/dgx2/home") and lines[4:] == ["1", "no"]
    assert "a password is required" in str(r.stderr)
    r = await b.run("dgx2", "python3 -I -c 'import socket, platform; print(socket.gethostname(), platform.machine())'")
    assert r.stdout == "dgx2 aarch64\n"
    r = await b.run("dgx2", "nvidia-smi --query-gpu=name,memory.used,temperature.gpu --format=csv,noheader,nounits")
    assert str(r.stdout).startswith("NVIDIA GB10, [N/A], 4")


async def _gone(pid: int) -> None:
    """Until a process is no more; woken by the kernel, not by a clock."""
    import os

    try:
        fd = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    loop = asyncio.get_running_loop()
    ended = loop.create_future()
    loop.add_reader(fd, lambda: ended.done() or ended.set_result(None))
    try:
        await asyncio.wait_for(ended, 20)
    finally:
        loop.remove_reader(fd)
        os.close(fd)


@pytest.mark.parametrize("command", ["echo $$; exec sleep 300", "setsid sh -c 'echo $$; exec sleep 300'"])
async def test_a_command_dies_with_its_connection(bench: Make, command: str) -> None:
    b = await bench(nodes=1)
    connection = await b.connect("dgx1")
    process = await connection.create_process(command)
    pid = int(await process.stdout.readline())
    connection.abort()
    await _gone(pid)


async def test_a_wrapped_command_ends_when_its_channel_closes(bench: Make) -> None:
    import shlex

    b = await bench(nodes=1)
    process = await (await b.on("dgx1")).create_process(shlex.join(wrapped(["sh", "-c", "echo $$; exec sleep 300"])))
    pid = int(await process.stdout.readline())
    process.close()
    await _gone(pid)


async def test_openssh_reaches_a_node_with_the_files_of_the_lab(bench: Make) -> None:
    if shutil.which("ssh") is None:
        pytest.skip("no OpenSSH client on this machine")
    b = await bench(nodes=2)
    done = await asyncio.to_thread(
        subprocess.run,
        ["ssh", "-F", str(b.lab.folder / "ssh_config"), "dgx2", "hostname; docker ps -q; exit 3"],
        capture_output=True, timeout=30, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    assert (done.stdout, done.returncode) == (b"dgx2\n", 3), done.stderr


async def test_a_stranger_s_key_is_refused(bench: Make) -> None:
    import asyncssh

    b = await bench(nodes=1)
    with pytest.raises(asyncssh.PermissionDenied):
        await b.connect("dgx1", client_keys=[asyncssh.generate_private_key("ssh-ed25519")])


async def test_a_silent_node_accepts_and_says_nothing(bench: Make) -> None:
    b = await bench(nodes=2)
    await b.on("dgx2")
    b.lab.node("dgx2").freeze()
    port = b.lab._sshd["dgx2"].port
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    waiting = asyncio.create_task(reader.read(1))
    running = asyncio.create_task(b.run("dgx2", "echo alive"))
    assert (await b.run("dgx1", "echo other")).stdout == "other\n", "time passes, another node answers"
    assert not waiting.done() and not running.done()
    b.lab.node("dgx2").heal()
    assert (await asyncio.wait_for(running, 10)).stdout == "alive\n"
    assert await asyncio.wait_for(waiting, 10) == b"", "who waited for a banner is hung up on"
    writer.close()


async def test_a_cut_node_drops_and_refuses(bench: Make) -> None:
    b = await bench(nodes=1)
    connection = await b.on("dgx1")
    b.lab.node("dgx1").cut_off()
    await asyncio.wait_for(connection.wait_closed(), 10)
    with pytest.raises(ConnectionRefusedError):
        await b.connect("dgx1")
    b.lab.node("dgx1").heal()
    (await b.connect("dgx1")).abort()


def test_every_file_for_the_client_is_private(tmp_path: Path) -> None:
    async def go() -> Bench:
        from console.lab.lab import Lab, LabConfig

        lab = Lab(LabConfig(tmp_path / "lab", nodes=1))
        await lab.start()
        assert (lab.folder / "id").stat().st_mode & 0o777 == 0o600
        assert (lab.folder / "lab.json").is_file()
        await lab.close()
        assert not (lab.folder / "lab.json").exists()
        return Bench(lab)

    asyncio.run(go())
