"""Where keys and values stand: every shape that TOML has."""

from __future__ import annotations

from typing import Any

import pytest
import tomli
from hypothesis import given, settings
from hypothesis import strategies as st

from console.base.errors import FileError
from console.base.toml_locate import Document, Path, key_text, load_document

TEXT = '''# comment with [brackets] and "quotes"
title = "t"
"quoted key" = 1
'literal.key' = 2
"esc\\u0041ped" = 3
dotted . key."x y" = 4
long = """
one # no comment
two""" # comment
raw = \'\'\'a "quoted" ]\'\'\'
quotes = """a""""
args = [ # the list
  "one", 'two',
  # "not an entry",
  """
three""",
  [1, [2, 3]], { a = 1, b.c = [4] },
  "last",
]
empty = []
when = 1979-05-27 07:32:00Z
inline = { x = "}", y = ["]"], z = { w = 1 } }

[table]
key = 1
[table.sub]
key = 2
[[list]]
a = 1
[[list.inner]]
b = 2
[[list.inner]]
b = 3
[[list]]
a = 4
[list.sub]
c = 5
["odd.name"."x"]
d = 6
'''


def value_at(doc: Document, path: Path) -> str:
    span = doc.values[path]
    return doc.text[span.start : span.end]


@pytest.mark.parametrize(
    ("path", "line", "column", "raw"),
    [
        (("title",), 2, 9, '"t"'),
        (("quoted key",), 3, 16, "1"),
        (("literal.key",), 4, 17, "2"),
        (("escAped",), 5, 18, "3"),
        (("dotted", "key", "x y"), 6, 22, "4"),
        (("long",), 7, 8, '"""\none # no comment\ntwo"""'),
        (("raw",), 10, 7, "'''a \"quoted\" ]'''"),
        (("quotes",), 11, 10, '"""a""""'),
        (("args", 0), 13, 3, '"one"'),
        (("args", 1), 13, 10, "'two'"),
        (("args", 2), 15, 3, '"""\nthree"""'),
        (("args", 3), 17, 3, "[1, [2, 3]]"),
        (("args", 3, 1, 1), 17, 11, "3"),
        (("args", 4, "b", "c", 0), 17, 32, "4"),
        (("args", 5), 18, 3, '"last"'),
        (("empty",), 20, 9, "[]"),
        (("when",), 21, 8, "1979-05-27 07:32:00Z"),
        (("inline", "y", 0), 22, 26, '"]"'),
        (("inline", "z", "w"), 22, 42, "1"),
        (("table", "key"), 25, 7, "1"),
        (("table", "sub", "key"), 27, 7, "2"),
        (("list", 0, "a"), 29, 5, "1"),
        (("list", 0, "inner", 1, "b"), 33, 5, "3"),
        (("list", 1, "a"), 35, 5, "4"),
        (("list", 1, "sub", "c"), 37, 5, "5"),
        (("odd.name", "x", "d"), 39, 5, "6"),
    ],
)
def test_values(path: Path, line: int, column: int, raw: str) -> None:
    doc = load_document(TEXT, "f")
    assert doc.place(path, value=True) == (line, column)
    assert value_at(doc, path) == raw


def test_keys_and_tables() -> None:
    doc = load_document(TEXT, "f")
    assert doc.place(("table", "sub", "key")) == (27, 1)
    assert doc.place(("list", 1)) == (34, 3)
    assert doc.place(("dotted", "key")) == (6, 10)
    assert doc.place(("list", 0, "absent")) == (28, 3), "what is not there is placed at its table"
    assert doc.place(("absent",)) == (1, 1)


def test_crlf_and_byte_order_mark_do_not_shift_lines() -> None:
    doc = load_document("\ufeffa = 1\r\nb = [\r\n  2,\r\n  3,\r\n]\r\n", "f")
    assert doc.place(("a",)) == (1, 1)
    assert doc.place(("b", 1), value=True) == (4, 3)


def test_new_lines_and_trailing_commas_in_inline_tables() -> None:
    doc = load_document("t = {\n  a = 1, # one\n  b = 2,\n}\nc = 3\n", "f")
    assert doc.place(("t", "b")) == (3, 3)
    assert doc.place(("c",)) == (5, 1)


def test_brackets_by_the_thousand_are_an_error_of_the_file() -> None:
    with pytest.raises(FileError):
        load_document("a = " + "[" * 50_000, "f")


def test_nesting_beyond_the_limit_is_stepped_over() -> None:
    doc = load_document("a = " + "[" * 90 + '"]"' + "]" * 90 + "\nb = 1\n", "f")
    assert doc.place(("b",)) == (2, 1)


def test_a_number_of_thousands_of_digits_is_an_error_of_the_file() -> None:
    with pytest.raises(FileError, match="f:1:1: not TOML"):
        load_document("a = " + "9" * 5000, "f")


def test_key_text() -> None:
    assert key_text(("smoke", "checks", 1, "expect")) == "smoke.checks[2].expect"
    assert key_text(("env", "a b")) == 'env."a b"'


TEXTS = st.text(
    alphabet=st.characters(exclude_categories=("Cs", "Cc"), include_characters="\t\n\"'\\[]{}#=,."), max_size=12
)
SCALARS = st.one_of(TEXTS, st.integers(-(2**40), 2**40), st.booleans())
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=3), max_leaves=12
)


def quoted(text: str) -> str:
    out = "".join(f"\\u{ord(c):04X}" if c < " " else "\\" + c if c in '"\\' else c for c in text)
    return f'"{out}"'


@st.composite
def written(draw: st.DrawFn, value: Any, *, key: bool = False) -> str:
    """A value as TOML, in one of the ways that TOML has."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int):
        return str(value)
    if isinstance(value, str):
        ways = [quoted(value)]
        if "'" not in value and "\n" not in value:
            ways.append(f"'{value}'")
        if not key:
            body = value.replace("\\", "\\\\").replace('"', '\\"').replace("\t", "\\t")
            ways.append(f'"""\n{body}"""')
            if "'" not in value:
                ways.append(f"'''\n{value}'''")
        return draw(st.sampled_from(ways))
    gap = draw(st.sampled_from(["", " ", "\n", ' # ] " }\n', "\n\n\t"]))
    if isinstance(value, list):
        inner = [gap + draw(written(v)) + draw(st.sampled_from(["", " "])) for v in value]
        return "[" + ",".join(inner) + draw(st.sampled_from(["", gap])) + "]"
    pairs = [f" {draw(written(k, key=True))} = {draw(written(v))} " for k, v in value.items()]
    return "{" + ",".join(pairs) + "}"


def leaves(value: Any, path: Path = ()) -> list[Path]:
    if isinstance(value, dict):
        return [path] * bool(path) + [p for k, v in value.items() for p in leaves(v, (*path, k))]
    if isinstance(value, list):
        return [path, *(p for i, v in enumerate(value) for p in leaves(v, (*path, i)))]
    return [path]


def at(data: Any, path: Path) -> Any:
    for part in path:
        data = data[part]
    return data


@settings(deadline=None)
@given(st.data(), st.dictionaries(TEXTS, VALUES, max_size=5))
def test_every_value_is_found_where_it_stands(draws: st.DataObject, data: dict[str, Any]) -> None:
    lines = [f"{draws.draw(written(k, key=True))} = {draws.draw(written(v))}" for k, v in data.items()]
    text = "\n# c\n".join(lines) + "\n"
    doc = load_document(text, "f")
    assert doc.data == data
    for path in leaves(data):
        again = tomli.loads("v = " + value_at(doc, path))["v"]
        assert again == at(data, path)
        assert doc.text[doc.keys[path].start] not in " \n#" if path in doc.keys else isinstance(path[-1], int)
