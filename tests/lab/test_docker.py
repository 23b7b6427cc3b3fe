"""docker as a launcher meets it: its flags, its words, its two ways to be asked."""

from __future__ import annotations

import asyncio
import json

import pytest

from console.lab.containers import Spec
from console.lab.docker_run import BadFlag, parse, spec

from .conftest import Make


def test_flags_are_read_as_docker_reads_them() -> None:
    command = parse(
        ["-dit", "--name=a", "-eA=1", "-e", "B=x y", "--label", "k=v=w", "--gpus", "all", "--ulimit", "memlock=-1",
         "img:1", "-x", "--y"]
    )  # fmt: skip
    made = spec(command)
    assert made.name == "a" and made.env == ("A=1", "B=x y") and made.labels == {"k": "v=w"}
    assert made.cmd == ("-x", "--y") and command.on("detach") and made.entrypoint is None
    assert made.host_config["Ulimits"] == [{"Name": "memlock", "Soft": -1, "Hard": -1}]
    assert spec(parse(["--entrypoint", "", "img"])).entrypoint == ()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--nope", "img"], "unknown flag: --nope"),
        (["-Z", "img"], "unknown shorthand flag: 'Z' in -Z"),
        (["--name"], "flag needs an argument: --name"),
        (["-d"], "requires at least 1 argument"),
        (["--mount", "type=bind,src=/no/such/place,dst=/x", "img"], "bind source path does not exist: /no/such/place"),
        (["--ulimit", "memlock=all", "img"], "invalid ulimit argument"),
    ],
)
def test_wrong_flags_fail_in_docker_s_words(words: list[str], said: str) -> None:
    with pytest.raises(BadFlag, match=said.replace("'", ".")):
        spec(parse(words))


async def test_names_are_unique_and_images_are_needed(bench: Make) -> None:
    b = await bench(nodes=1)
    assert (await b.run("dgx1", "docker run -d --name one --entrypoint sleep dsv41-flash:local 600")).exit_status == 0
    again = await b.run("dgx1", "docker run -d --name one --entrypoint sleep dsv41-flash:local 600")
    assert again.exit_status == 125
    assert 'Conflict. The container name "/one" is already in use by container "' in str(again.stderr)
    for option, said in (
        ("--pull never", "No such image: no/such:1"),
        ("", "Unable to find image 'no/such:1' locally"),
    ):
        r = await b.run("dgx1", f"docker run -d {option} no/such:1")
        assert r.exit_status == 125 and said in str(r.stderr)
    assert (await b.run("dgx1", "docker rm one")).exit_status == 1
    assert (await b.run("dgx1", "docker rm -f one nobody")).stdout == "one\n"


async def test_a_variable_without_a_value_comes_from_the_command_s_environment(bench: Make) -> None:
    b = await bench(nodes=1)
    words = "docker run -d --name one -e A -e B -e C=3 --entrypoint sleep dsv41-flash:local 600"
    assert (await b.run("dgx1", f"export A='hf_x y'; {words}")).exit_status == 0
    told = json.loads(str((await b.run("dgx1", "docker inspect one")).stdout))[0]["Config"]["Env"]
    assert "A=hf_x y" in told and "C=3" in told and not [e for e in told if e.startswith("B")]


async def test_ps_and_inspect_in_every_form(bench: Make) -> None:
    b = await bench(nodes=1)
    run = "docker run -d --entrypoint sleep --label app=x --label n={0} --name c{0} dsv41-flash:local {1}"
    await b.run("dgx1", run.format(1, 600) + "; " + run.format(2, 0) + "; docker wait c2")
    assert (await b.run("dgx1", "docker ps --format '{{.Names}}'")).stdout == "c1\n"
    rows = str((await b.run("dgx1", "docker ps -a --no-trunc --filter label=app=x --format '{{json .}}'")).stdout)
    found = [json.loads(line) for line in rows.splitlines()]
    assert [(r["Names"], r["State"]) for r in found] == [("c2", "exited"), ("c1", "running")]
    assert (
        found[0]["Labels"] == "app=x,n=2" and found[0]["Status"].startswith("Exited (0)") and len(found[0]["ID"]) == 64
    )
    assert (
        await b.run("dgx1", "docker ps -a --filter status=exited --format '{{.Names}} {{.Label \"n\"}}'")
    ).stdout == "c2 2\n"
    inspected = json.loads(str((await b.run("dgx1", "docker inspect c1")).stdout))[0]
    assert inspected["State"]["Running"] and inspected["Config"]["Labels"] == {"app": "x", "n": "1"}
    assert inspected["Config"]["Entrypoint"] == ["sleep"] and inspected["Name"] == "/c1"
    assert (
        await b.run("dgx1", "docker inspect -f '{{index .Config.Labels \"n\"}}|{{.State.Pid}}' c2")
    ).stdout == "2|0\n"
    missing = await b.run("dgx1", "docker inspect nobody")
    assert missing.exit_status == 1 and "No such object: nobody" in str(missing.stderr) and missing.stdout == "[]\n"
    info = json.loads(str((await b.run("dgx1", "docker info --format '{{json .}}'")).stdout))
    assert "nvidia" in info["Runtimes"] and info["Driver"] == "overlay2"


async def test_the_socket_tells_what_the_command_tells(bench: Make) -> None:
    b = await bench(nodes=1)
    connection = await b.on("dgx1")

    async def ask(method: str, path: str, body: bytes = b"") -> tuple[int, bytes]:
        reader, writer = await connection.open_unix_connection("/var/run/docker.sock", encoding=None)
        head = f"{method} /v1.47{path} HTTP/1.1\r\nHost: d\r\nConnection: close\r\nContent-Length: {len(body)}\r\n\r\n"
        writer.write(head.encode() + body)
        answer = bytes(await reader.read())
        writer.close()
        head_bytes, _, rest = answer.partition(b"\r\n\r\n")
        return int(head_bytes.split()[1]), rest

    events, stop = await connection.open_unix_connection("/var/run/docker.sock", encoding=None)
    stop.write(b"GET /events HTTP/1.1\r\nHost: d\r\n\r\n")
    await events.readuntil(b"\r\n\r\n")
    await events.readuntil(b" \r\n")
    made = {"Image": "dsv41-flash:local", "Entrypoint": ["sleep"], "Cmd": ["600"], "Labels": {"app": "y"}}
    status, body = await ask("POST", "/containers/create?name=api", json.dumps(made).encode())
    ident = json.loads(body)["Id"]
    assert status == 201 and (await ask("POST", f"/containers/{ident}/start"))[0] == 204
    assert b'"Action": "create"' in await events.readuntil(b"}\n\r\n")
    assert b'"Action": "start"' in await events.readuntil(b"}\n\r\n")
    stop.close()
    listed = json.loads((await ask("GET", '/containers/json?filters={"label":["app=y"]}'))[1])
    assert [(c["Names"], c["State"]) for c in listed] == [(["/api"], "running")]
    old, end = await connection.open_unix_connection("/var/run/docker.sock", encoding=None)
    end.write(b"GET /_ping HTTP/1.0\r\n\r\n")
    async with asyncio.timeout(20):
        assert b" 200 " in await old.read(), "an answer to HTTP/1.0 ends with its connection"
    assert (await b.run("dgx1", "docker ps -q --no-trunc")).stdout == ident + "\n"
    assert (await ask("GET", "/containers/nobody/json")) == (404, b'{"message": "No such container: nobody"}')
    assert (await ask("DELETE", f"/containers/{ident}?force=1"))[0] == 204
    assert (await ask("GET", "/_ping"))[1] == b"OK"


async def test_containers_outlive_every_connection(bench: Make) -> None:
    b = await bench(nodes=1)
    await b.run("dgx1", "docker run -d --name kept --entrypoint sleep dsv41-flash:local 600")
    b.connections.pop("dgx1").abort()
    assert (await b.run("dgx1", "docker ps --format '{{.Names}}'")).stdout == "kept\n"


def test_a_spec_has_no_surprises() -> None:
    assert Spec("x").cmd == () and not Spec("x").auto_remove
