"""A word reaches the far program as it is, whatever is in it; what no shell can carry is refused."""

from __future__ import annotations

import shutil
import subprocess

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from console.base.errors import UsageError
from console.transport.quoting import MAX_LINE_BYTES, command_line, quote

SHELLS = [s for s in (["dash"], ["bash"], ["busybox", "sh"], ["zsh"], ["fish"]) if shutil.which(s[0])]
WORDS = st.text(st.characters(blacklist_characters="\0", blacklist_categories=("Cs",)), max_size=40)


@pytest.mark.parametrize("shell", SHELLS, ids=lambda s: s[0])
@settings(max_examples=40, deadline=None)
@given(words=st.lists(WORDS, min_size=1, max_size=6))
@example(words=["", "'", '"', "\\", "\\\\'", "'\\''", "$(id)", "`id`", "a\nb", "!x", "*", "~", "-n", "#", "é\u202e"])
def test_words_arrive_as_they_are(shell: list[str], words: list[str]) -> None:
    line = command_line(["printf", "%s\\0", *words])
    done = subprocess.run([*shell, "-c", line], stdout=subprocess.PIPE, check=True)
    assert done.stdout.decode().split("\0")[:-1] == words


def test_a_backslash_never_stands_in_single_quotes() -> None:
    # fish reads \\ and \' inside single quotes as escapes
    assert quote("a\\'b") == 'a"\\\\"' + "''\"'\"'b'"
    assert quote("plain") == "plain"


def test_the_shell_sees_exec_first() -> None:
    assert command_line(["docker", "ps", "--format", "{{.ID}}"]) == "exec docker ps --format '{{.ID}}'"


@pytest.mark.parametrize("argv", [[], [""], ["a", "b\0c"], ["a", "\ud800"], ["a", "x" * MAX_LINE_BYTES]])
def test_what_cannot_be_carried_is_refused(argv: list[str]) -> None:
    with pytest.raises(UsageError):
        command_line(argv)
