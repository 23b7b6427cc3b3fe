"""A cluster file as a Cluster, every error of a bad one at its line and column, and the text that `init` writes."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from console.cluster.model import Cluster, Node
from console.cluster.parse import ClusterErrors, local_cluster, parse_cluster
from console.cluster.ranges import RangeError, expand
from console.cluster.render import render_cluster

BROKEN = sorted((Path(__file__).parent / "broken").glob("*.toml"))
SAMPLE = """name = "spark8"
user = "operator"            # defaults for all nodes
container_cli = "docker"
fabric_interface = "enp1s0f0np0"
hf_cache = "~/.cache/huggingface"
api_host = "127.0.0.1"

[[nodes]]
host = "dgx1"
fabric_address = "10.0.0.1"
[[nodes]]
host = "dgx2"
user = "other"
port = 2222
container_cli = "podman"
fabric_address = "10.0.0.2"
hcas = ["rocep1s0f0:1", "roceP2p1s0f0:1"]
"""


@pytest.mark.parametrize("path", BROKEN, ids=lambda p: p.stem)
def test_broken_file_names_line_column_and_key(path: Path) -> None:
    expected = path.with_suffix(".expected").read_text().splitlines()
    with pytest.raises(ClusterErrors) as caught:
        parse_cluster(path.read_text(), path.name)
    found = [str(e) for e in caught.value.errors]
    assert [f[: len(e) - 3] if e.endswith("...") else f for f, e in zip(found, expected, strict=True)] == [
        e.removesuffix("...") for e in expected
    ]


def test_defaults_and_own_values() -> None:
    cluster = parse_cluster(SAMPLE, "cluster.toml")
    assert (cluster.name, cluster.api_host, cluster.findings) == ("spark8", "127.0.0.1", ())
    assert cluster.nodes == (
        Node("dgx1", "dgx1", "operator", None, "10.0.0.1", "enp1s0f0np0", None, "docker", "~/.cache/huggingface"),
        Node(
            "dgx2",
            "dgx2",
            "other",
            2222,
            "10.0.0.2",
            "enp1s0f0np0",
            ("rocep1s0f0:1", "roceP2p1s0f0:1"),
            "podman",
            "~/.cache/huggingface",
        ),
    )


def test_a_range_expands_with_its_addresses_and_names() -> None:
    text = '[[nodes]]\nhost = "dgx[1-3]"\nname = "n[01-03]"\nfabric_address = "10.0.0.[11-13]"\n'
    nodes = parse_cluster(text, "c").nodes
    assert [(n.host, n.name, n.fabric_address) for n in nodes] == [
        ("dgx1", "n01", "10.0.0.11"),
        ("dgx2", "n02", "10.0.0.12"),
        ("dgx3", "n03", "10.0.0.13"),
    ]


def test_unknown_keys_are_kept_and_warned_of() -> None:
    cluster = parse_cluster('fabric_iface = "x"\n[[nodes]]\nhost = "a"\nhcaz = ["m"]\n', "c.toml")
    assert cluster.extra == {"fabric_iface": "x", "nodes[1].hcaz": ["m"]}
    assert [(f.message, f.remedy) for f in cluster.findings] == [
        ("c.toml:1:1: fabric_iface: unknown key, kept without effect", 'did you mean "fabric_interface"?'),
        ("c.toml:4:1: nodes[1].hcaz: unknown key, kept without effect", 'did you mean "hcas"?'),
    ]


def test_one_node_may_have_a_loopback_fabric() -> None:
    assert local_cluster().nodes[0].is_local
    assert parse_cluster(render_cluster(local_cluster()), "c").nodes == local_cluster().nodes


@pytest.mark.parametrize(
    ("pattern", "names"),
    [
        ("dgx1", ["dgx1"]),
        ("dgx[1-3]", ["dgx1", "dgx2", "dgx3"]),
        ("dgx[08-11]", ["dgx08", "dgx09", "dgx10", "dgx11"]),
        ("dgx[1,3,5]", ["dgx1", "dgx3", "dgx5"]),
        ("dgx[1-2,7]x", ["dgx1x", "dgx2x", "dgx7x"]),
        ("r[1-2]n[1-2]", ["r1n1", "r1n2", "r2n1", "r2n2"]),
        ("dgx[0-1]", ["dgx0", "dgx1"]),
        ("", [""]),
    ],
)
def test_ranges(pattern: str, names: list[str]) -> None:
    assert expand(pattern) == names


@pytest.mark.parametrize(
    "pattern", ["a[", "a]", "a[]", "a[1-]", "a[-1]", "a[2-1]", "a[1-513]", "a[1-99]b[1-99]", "a[x]"]
)
def test_what_is_no_range(pattern: str) -> None:
    with pytest.raises(RangeError):
        expand(pattern)


@settings(deadline=None)
@given(st.text(max_size=30))
def test_any_pattern_gives_names_or_a_range_error(pattern: str) -> None:
    try:
        assert expand(pattern)
    except RangeError:
        pass


WORDS = st.from_regex(r"[A-Za-z][A-Za-z0-9_.\-]{0,8}", fullmatch=True)
LINES = st.text(alphabet=st.characters(exclude_categories=("Cs", "Cc", "Zl", "Zp")), min_size=1, max_size=8)
NODES = st.builds(
    Node,
    name=WORDS,
    host=WORDS,
    user=st.none() | WORDS,
    port=st.none() | st.integers(1, 65535),
    fabric_address=st.none() | st.ip_addresses(v=4, network="10.0.0.0/8").map(str),
    fabric_interface=st.none() | WORDS,
    hcas=st.none() | st.lists(WORDS.map(lambda w: w + ":1"), max_size=2).map(tuple),
    container_cli=st.sampled_from(["docker", "podman", "nerdctl"]),
    hf_cache=st.none() | WORDS.map(lambda w: "~/" + w),
)


@settings(deadline=None)
@given(
    LINES.filter(lambda s: bool(s.strip())),
    st.lists(
        NODES,
        min_size=1,
        max_size=6,
        unique_by=(lambda n: n.host, lambda n: n.name, lambda n: n.fabric_address or n.host),
    ),
    st.dictionaries(
        st.from_regex(r"[A-Z_][A-Z0-9_]{0,6}", fullmatch=True),
        st.text(alphabet=st.characters(exclude_categories=("Cs",), exclude_characters="\0"), max_size=8),
        max_size=3,
    ),
)
def test_what_is_written_reads_back(name: str, nodes: list[Node], env: dict[str, str]) -> None:
    names = {n.name for n in nodes}
    if any(n.host in names and n.host != n.name for n in nodes):
        return  # a name that is another node's host is refused, as it should be
    cluster = Cluster(name=name, file="c", nodes=tuple(nodes), env=env, ssh_config="conf ig")
    again = parse_cluster(render_cluster(cluster), "c")
    assert (again.name, again.nodes, again.env, again.ssh_config) == (name, cluster.nodes, env, "conf ig")


@settings(deadline=None)
@given(st.text(max_size=120))
def test_any_text_gives_a_cluster_or_cluster_errors(text: str) -> None:
    with pytest.raises(ClusterErrors):
        parse_cluster(text, "c")


@settings(deadline=None)
@given(
    st.sampled_from(
        ['"x"', "1", "true", "[]", "{}", '["a"]', '""', "nan", '[{host = "a"}, {host = 1}, 2]', '"a[1-3]"']
    ),
    st.sampled_from(
        ["name", "user", "port", "env", "nodes", "ssh_config", "hf_cache", "host", "hcas", "fabric_address"]
    ),
)
def test_any_value_gives_a_cluster_or_cluster_errors(value: str, key: str) -> None:
    for text in (
        f"{key} = {value}\n[[x]]\n",
        f'[[nodes]]\nhost = "h"\n{key} = {value}\n' if key != "host" else f"[[nodes]]\nhost = {value}\n",
    ):
        try:
            parse_cluster(text, "c")
        except ClusterErrors as caught:
            assert all(e.line is not None for e in caught.errors)
