"""ssh's own configuration, keys and host keys, against a real sshd and the real ssh tools."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import asyncssh
import pytest

from console.cluster.model import Node
from console.transport.base import TransportError, Trouble
from console.transport.ssh_config import resolve
from tests.transport.sshd import Sshd, keygen
from tests.transport.tools import linked

ALL_KINDS = ("ed25519", "ecdsa", "rsa")


async def works(config: Path | None, host: str = "spark-1", **options: object) -> None:
    async with linked(config, host, **options) as link:
        assert (await link.run(["echo", "hi"], timeout=20)).stdout == b"hi\n"


async def fails(config: Path | None, host: str = "spark-1", **options: object) -> TransportError:
    async with linked(config, host, **options) as link:
        with pytest.raises(TransportError) as caught:
            await link.run(["true"], timeout=20)
        return caught.value


def tool(*argv: object) -> str:
    done = subprocess.run([str(a) for a in argv], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True)
    return done.stdout.decode()


def public_file(key: Path) -> Path:
    return Path(f"{key}.pub")


def public_half(key: Path) -> str:
    return public_file(key).read_text()


def ssh_agrees(config: Path, host: str = "spark-1") -> bool:
    """What OpenSSH's own client makes of the same configuration."""
    argv = ["ssh", "-F", str(config), "-o", "BatchMode=yes", "-o", "StrictHostKeyChecking=yes", host, "true"]
    return subprocess.run(argv, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode == 0


async def test_home_config_is_read_without_ssh_config(sshd: Sshd, home: Path) -> None:
    (home / ".ssh").mkdir()
    shutil.copy(sshd.config(), home / ".ssh" / "config")
    await works(None)


async def test_include_match_and_several_known_hosts_files(sshd: Sshd, tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.write_text("")
    inner = sshd.config("spark-1", file="inner")
    text = inner.read_text().replace("UserKnownHostsFile ", f"UserKnownHostsFile {tmp_path}/none {empty} ")
    inner.write_text(text)
    outer = tmp_path / "outer"
    outer.write_text(f"Include {inner}\nMatch originalhost spark-1\n  ServerAliveInterval 7\n")
    await works(outer)


async def test_defaults_of_the_cluster_file_win(sshd: Sshd) -> None:
    config = sshd.config()
    config.write_text(config.read_text().replace(f"Port {sshd.port}", "Port 1").replace(f"User {sshd.user}", "User no"))
    await works(config, user=sshd.user, port=sshd.port)


async def test_hashed_known_hosts(sshd: Sshd) -> None:
    tool("ssh-keygen", "-q", "-H", "-f", sshd.known_hosts)
    assert sshd.known_hosts.read_text().startswith("|1|")
    await works(sshd.config())


async def test_host_key_alias(sshd: Sshd) -> None:
    sshd.known_hosts.write_text(sshd.known_line(name="the-alias"))
    config = sshd.config("spark-1", "HostKeyAlias the-alias")
    assert ssh_agrees(config)
    await works(config)


@pytest.mark.parametrize("kind", ALL_KINDS)
async def test_the_key_type_that_is_known_is_the_one_asked_for(make_sshd: Callable[..., Sshd], kind: str) -> None:
    sshd = make_sshd(host_key_kinds=ALL_KINDS)
    sshd.known_hosts.write_text(sshd.known_line(kind))
    config = sshd.config()
    assert ssh_agrees(config)
    await works(config)


async def test_a_bad_line_hides_no_other(sshd: Sshd) -> None:
    sshd.known_hosts.write_text("garbage\n|1|bad|hash ssh-ed25519 AAAA\n@what x y\n\xff\n" + sshd.known_line())
    await works(sshd.config())


async def test_an_unknown_key_is_refused_with_the_command_that_learns_it(sshd: Sshd) -> None:
    sshd.known_hosts.write_text("")
    error = await fails(sshd.config("spark-1", "StrictHostKeyChecking accept-new"))
    assert error.trouble == Trouble.HOST_KEY
    listed = tool("ssh-keygen", "-lf", f"{sshd.host_keys['ed25519']}.pub")
    assert listed.split()[1] in error.what
    assert "StrictHostKeyChecking accept-new is not followed" in error.what
    assert sshd.known_hosts.read_text() == ""
    command = error.remedy.rsplit("then ", 1)[1]
    assert command == f"ssh-keyscan -p {sshd.port} 127.0.0.1 >> {sshd.known_hosts}"
    tool("sh", "-c", command)  # the remedy really helps
    await works(sshd.config())


@pytest.mark.parametrize("kind", ["ed25519", "ecdsa"])
async def test_a_changed_key_is_refused(sshd: Sshd, tmp_path: Path, kind: str) -> None:
    other = keygen(tmp_path / "other", kind)
    public = public_half(other)
    sshd.known_hosts.write_text(f"[127.0.0.1]:{sshd.port} {public}")
    error = await fails(sshd.config())
    assert error.trouble == Trouble.HOST_KEY
    assert "CHANGED" in error.what
    assert str(sshd.known_hosts) in error.what
    assert error.what.count("SHA256:") == 2
    assert f"ssh-keygen -R '[127.0.0.1]:{sshd.port}' -f {sshd.known_hosts}" in error.remedy


async def test_a_revoked_key_is_refused_though_it_is_known(sshd: Sshd) -> None:
    sshd.known_hosts.write_text(sshd.known_line() + "@revoked " + sshd.known_line(name="*"))
    error = await fails(sshd.config())
    assert error.trouble == Trouble.HOST_KEY
    assert "revoked" in error.what


async def test_a_host_certificate_by_a_known_authority(make_sshd: Callable[..., Sshd], tmp_path: Path) -> None:
    authority = keygen(tmp_path / "ca")
    sshd = make_sshd()
    public = f"{sshd.host_keys['ed25519']}.pub"
    tool("ssh-keygen", "-q", "-s", authority, "-h", "-I", "x", "-n", "127.0.0.1", public)
    certificate = sshd.host_keys["ed25519"].with_name("host_ed25519-cert.pub")
    sshd.stop()
    signed = make_sshd(f"HostCertificate {certificate}", f"HostKey {sshd.host_keys['ed25519']}", host_key_kinds=())
    ca = public_half(authority)
    signed.known_hosts.write_text(f"@cert-authority [127.0.0.1]:{signed.port} {ca}")
    await works(signed.config())


@pytest.mark.parametrize("option", ["UserKnownHostsFile none", "UserKnownHostsFile /dev/null"])
async def test_no_known_hosts_file_is_not_no_check(sshd: Sshd, option: str) -> None:
    config = sshd.config()
    config.write_text(config.read_text().replace(f"UserKnownHostsFile {sshd.known_hosts}", option))
    assert (await fails(config)).trouble == Trouble.HOST_KEY


async def test_a_denied_login_names_what_was_offered(sshd: Sshd) -> None:
    (sshd.folder / "authorized_keys").write_text("")
    error = await fails(sshd.config())
    assert error.trouble == Trouble.AUTH
    assert str(sshd.client_key) in error.what
    assert "authorize one of these keys" in error.remedy


async def test_a_key_with_a_passphrase_says_what_it_needs(sshd: Sshd) -> None:
    sshd.client_key.unlink()
    keygen(sshd.client_key, passphrase="secret words")
    error = await fails(sshd.config())
    assert error.trouble == Trouble.AUTH
    assert f"{sshd.client_key}: has a passphrase and no agent holds it" in error.what
    assert "ssh-add" in error.remedy


async def test_a_key_file_that_is_missing_or_no_key(sshd: Sshd) -> None:
    sshd.client_key.write_text("nonsense")
    assert "cannot be read as a key" in (await fails(sshd.config())).what
    sshd.client_key.unlink()
    public_file(sshd.client_key).unlink()
    error = await fails(sshd.config())
    assert error.trouble == Trouble.AUTH
    assert "there is no such file" in error.what


@pytest.fixture
def agent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    path = tmp_path / "agent.sock"
    with subprocess.Popen(["ssh-agent", "-D", "-a", str(path)], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        monkeypatch.setenv("SSH_AUTH_SOCK", str(path))
        yield path
        process.terminate()


async def test_keys_come_from_the_agent(sshd: Sshd, agent: Path) -> None:
    add = await asyncio.create_subprocess_exec("ssh-add", "-q", str(sshd.client_key), stderr=asyncio.subprocess.DEVNULL)
    assert await add.wait() == 0
    sshd.client_key.unlink()  # the .pub stays: IdentitiesOnly picks the agent's key by it
    await works(sshd.config())


async def test_identities_only_keeps_other_agent_keys_back(sshd: Sshd, agent: Path, tmp_path: Path) -> None:
    for i in range(7):  # sshd's MaxAuthTries is 6
        extra = keygen(tmp_path / f"extra{i}")
        add = await asyncio.create_subprocess_exec("ssh-add", "-q", str(extra), stderr=asyncio.subprocess.DEVNULL)
        assert await add.wait() == 0
    config = sshd.config()
    await works(config)
    config.write_text(config.read_text().replace("IdentitiesOnly yes", "IdentitiesOnly no"))
    error = await fails(config)
    assert error.trouble == Trouble.AUTH
    assert "IdentitiesOnly yes" in error.remedy


async def test_a_stale_agent_is_named_and_keys_from_files_still_work(
    sshd: Sshd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSH_AUTH_SOCK", str(tmp_path / "gone.sock"))
    await works(sshd.config())
    (sshd.folder / "authorized_keys").write_text("")
    error = await fails(sshd.config())
    assert str(tmp_path / "gone.sock") in error.what


async def test_a_jump_host(make_sshd: Callable[..., Sshd], tmp_path: Path) -> None:
    jump, far = make_sshd(), make_sshd()
    config = tmp_path / "both"
    config.write_text(jump.config("jump").read_text() + far.config("spark-1", "ProxyJump jump").read_text())
    assert ssh_agrees(config)
    await works(config)


async def test_two_jump_hosts_and_the_one_that_fails_is_named(make_sshd: Callable[..., Sshd], tmp_path: Path) -> None:
    first, second, far = make_sshd(), make_sshd(), make_sshd()
    config = tmp_path / "all"
    config.write_text(
        first.config("j1").read_text()
        + second.config("j2").read_text()
        + far.config("spark-1", f"ProxyJump j1,{second.user}@j2:{second.port}").read_text()
    )
    await works(config)
    second.known_hosts.write_text("")
    error = await fails(config)
    assert error.trouble == Trouble.HOST_KEY
    assert error.node == "n1"
    assert "jump host j2" in error.what
    assert "ssh j2 true" in error.remedy  # ssh-keyscan cannot reach it from here
    second.stop()
    assert "jump host j2" in (refused := await fails(config)).what
    assert refused.trouble == Trouble.REFUSED


async def test_the_far_host_key_is_checked_behind_a_jump_host(make_sshd: Callable[..., Sshd], tmp_path: Path) -> None:
    jump, far = make_sshd(), make_sshd()
    config = tmp_path / "both"
    config.write_text(jump.config("jump").read_text() + far.config("spark-1", "ProxyJump jump").read_text())
    far.known_hosts.write_text("")
    error = await fails(config)
    assert error.trouble == Trouble.HOST_KEY
    assert "jump host" not in error.what
    assert "ssh spark-1 true" in error.remedy


async def test_a_proxy_command(sshd: Sshd, make_sshd: Callable[..., Sshd]) -> None:
    config = sshd.config("spark-1", f"ProxyCommand bash -c 'exec 3<>/dev/tcp/127.0.0.1/{sshd.port}; cat <&3 & cat >&3'")
    await works(config)
    broken = sshd.config("spark-1", "ProxyCommand false")
    assert "ProxyCommand" in (await fails(broken)).what


async def test_a_config_that_cannot_be_read_says_where(tmp_path: Path) -> None:
    config = tmp_path / "config"
    config.write_text("Host *\n  Port twenty\n")
    error = await fails(config)
    assert error.trouble == Trouble.CONFIG
    assert f"{config} line 2" in error.what
    assert (await fails(tmp_path / "none")).trouble == Trouble.CONFIG


def test_a_circle_of_jump_hosts(tmp_path: Path) -> None:
    config = tmp_path / "config"
    config.write_text("Host a\n  ProxyJump b\nHost b\n  ProxyJump a\n")
    with pytest.raises(TransportError) as caught:
        resolve(Node("n", "a"), str(config))
    assert caught.value.trouble == Trouble.CONFIG
    assert "a -> b -> a" in caught.value.what


def test_how_jump_hosts_may_be_written(tmp_path: Path) -> None:
    config = tmp_path / "config"
    config.write_text("Host far\n  ProxyJump ssh://me@one:2201,[fe80::1]:22,two\nHost *\n  User op\n")
    hops = resolve(Node("n", "far"), str(config)).hops
    assert [h.address for h in hops] == ["me@one:2201", "op@[fe80::1]:22", "op@two:22", "op@far:22"]
    assert hops[-1].via == ("one", "fe80::1", "two")


def parses(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The hosts for which the configuration is parsed from now on."""
    made: list[str] = []
    real = asyncssh.SSHClientConnectionOptions

    def parse(**arguments: object) -> asyncssh.SSHClientConnectionOptions:
        made.append(str(arguments["host"]))
        return real(**arguments)

    monkeypatch.setattr("console.transport.ssh_config.asyncssh.SSHClientConnectionOptions", parse)
    return made


def test_a_plain_configuration_is_parsed_once_for_a_host_until_it_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = tmp_path / "config"
    config.write_text("Host a b\n  HostName 10.0.0.1\n  User ann\n")
    made = parses(monkeypatch)
    first = resolve(Node("n", "a"), str(config)).hops[0]
    again = resolve(Node("n", "a"), str(config)).hops[0]
    assert made == ["a"] and first.options is again.options is not None
    assert (again.host, again.user) == ("10.0.0.1", "ann")
    assert resolve(Node("n", "a", user="bob"), str(config)).hops[0].user == "bob"
    config.write_text("Host a b\n  HostName 10.0.0.22\n  User ann\n")
    assert resolve(Node("n", "a"), str(config)).hops[0].host == "10.0.0.22"
    assert made == ["a", "a", "a"]


@pytest.mark.parametrize("more", ["Include other", "Match host a exec true\n  Port 99", " match all\n  Port 9"])
def test_what_may_change_without_its_file_is_parsed_every_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, more: str
) -> None:
    (tmp_path / "other").write_text("Host a\n  Port 2222\n")
    config = tmp_path / "config"
    config.write_text(more.replace("other", str(tmp_path / "other")) + "\nHost a\n  HostName 10.0.0.1\n")
    made = parses(monkeypatch)
    hops = [resolve(Node("n", "a"), str(config)).hops[0] for _ in range(2)]
    assert made == ["a", "a"] and [h.options for h in hops] == [None, None]


async def test_a_second_connection_uses_what_was_parsed(sshd: Sshd, monkeypatch: pytest.MonkeyPatch) -> None:
    made = parses(monkeypatch)
    config = sshd.config()
    for _ in range(2):
        await works(config)
    assert made == ["spark-1"]
