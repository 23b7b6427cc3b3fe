"""Shell words: as a shell reads quotes, and nothing else that a shell does."""

from __future__ import annotations

import json
import shutil
import subprocess

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from console.recipe.args import flags, positionals
from console.recipe.words import WordError, read_entry, split_words


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        ("--flag", ["--flag"]),
        ("--max-model-len 300000", ["--max-model-len", "300000"]),
        ("'{\"a\":1}'", ['{"a":1}']),
        ("\n'{\"a\": [1, 2]}'", ['{"a": [1, 2]}']),
        ('{"thinking": true, "effort": "max"}', ['{"thinking": true, "effort": "max"}']),
        (' \n{"a": "it\'s"}\n', ['{"a": "it\'s"}']),
        ('["a b", "c"]', ['["a b", "c"]']),
        ('--config \'{"a": "b c"}\'', ["--config", '{"a": "b c"}']),
        ('{\\"a\\":1}', ['{"a":1}']),
        ("{not json}", ["{not", "json}"]),
        ("''", [""]),
        ("", []),
        (" \t\n ", []),
        ("a''b", ["ab"]),
        ('"a b"c\\ d', ["a bc d"]),
        ('"\\$HOME \\a"', ["$HOME \\a"]),
        ("--a 1 \\\n  --b 2", ["--a", "1", "--b", "2"]),
        ("#not-a-comment", ["#not-a-comment"]),
        ("naïve – 深", ["naïve", "–", "深"]),
    ],
)
def test_one_entry(entry: str, words: list[str]) -> None:
    assert read_entry(entry) == words


@pytest.mark.parametrize(
    "hostile", ["$(rm -rf /)", "`id`", "$HOME", "${IFS}", "a;b", "a|b", "a&&b", ">x", "*", "?", "~root", "!1", "$'x'"]
)
def test_nothing_is_expanded(hostile: str) -> None:
    assert "".join(split_words(hostile)).replace("'", "") == hostile.replace(" ", "").replace("'", "")
    assert split_words(f"'{hostile}'" if "'" not in hostile else f'"{hostile}"') == [hostile]


def test_a_new_line_in_quotes_stays_one_word() -> None:
    assert split_words("'a\nb'; touch x") == ["a\nb;", "touch", "x"]


@pytest.mark.parametrize(
    ("text", "message", "offset"),
    [
        ("a 'b", "a single quote (') is not closed", 2),
        ('"b', 'a double quote (") is not closed', 0),
        ("a\\", "ends with a backslash that escapes nothing", 1),
        ("a\0b", "holds a NUL, which no argument can carry", 1),
        ("'a\0b'", "holds a NUL, which no argument can carry", 2),
    ],
)
def test_what_is_no_word(text: str, message: str, offset: int) -> None:
    with pytest.raises(WordError) as error:
        read_entry(text)
    assert (error.value.message, error.value.offset) == (message, offset)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.text(alphabet="ab \t\n'\"\\-={}:,", max_size=14), min_size=20, max_size=20))
def test_agrees_with_a_real_shell(fragments: list[str]) -> None:
    shell = shutil.which("dash") or shutil.which("sh")
    assert shell is not None
    good = []
    for fragment in fragments:
        try:
            good.append((fragment, split_words(fragment)))
        except WordError:
            continue
    # a line's end ends a command for a shell, unless quoted: our fragments are one command, so it stands as a blank
    lines = [f for f in good if "\n" not in f[0]]
    script = "".join(f'set -- {text}\nprintf \'%s\\0\' "$#" "$@"\n' for text, _ in lines)
    run = subprocess.run([shell, "-f"], input=script.encode(), capture_output=True, check=True)
    expected = [w for _, words in lines for w in (str(len(words)), *words)]
    assert run.stdout.decode().split("\0")[:-1] == expected


@settings(deadline=None)
@given(st.text(max_size=60))
def test_any_text_gives_words_or_a_word_error(text: str) -> None:
    try:
        words = read_entry(text)
    except WordError:
        return
    assert all("\0" not in w for w in words)


@settings(deadline=None)
@given(
    st.recursive(
        st.none() | st.integers() | st.text(max_size=5), lambda i: st.lists(i) | st.dictionaries(st.text(max_size=4), i)
    )
)
def test_json_is_kept_whole(value: object) -> None:
    text = json.dumps({"v": value})
    assert read_entry(text) == [text]
    assert read_entry("\n'" + text.replace("'", "'\\''") + "'") == [text]


def test_json_of_brackets_by_the_thousand() -> None:
    assert read_entry("[" * 100_000) == ["[" * 100_000]


def test_flags() -> None:
    entries = ["serve x", "--max_model_len=8", "-tp 4", "--eager", "--names a b", "--bias -1 -0.5", "-O3"]
    args = [word for entry in entries for word in read_entry(entry)]
    assert positionals(args) == ["serve", "x"]
    found = [(f.name, f.values) for f in flags(args)]
    assert found == [
        ("--max-model-len", ("8",)),
        ("--tensor-parallel-size", ("4",)),
        ("--eager", ()),
        ("--names", ("a", "b")),
        ("--bias", ("-1", "-0.5")),
        ("-O3", ()),
    ]
    assert [f.written for f in flags(args)][:2] == ["--max_model_len", "-tp"]
