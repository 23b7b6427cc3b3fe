"""The judge of text, on what garbled and sane servers were seen to say."""

from __future__ import annotations

import pytest

from console.boot.judge import judge_text


@pytest.mark.parametrize(
    "text",
    [
        " Paris. The capital of Germany is Berlin.",
        "4",
        "\n\n1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16",
        "Okay, the user asks for the capital of France. That is Paris.",
        "Yes yes yes.",
        "The cat and the dog and the bird and the fish are in the house of the man.",
    ],
)
def test_sane(text: str) -> None:
    assert judge_text(text, prompt="The capital of France is") == ""


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "empty"),
        ("  \n ", "empty"),
        ("�carecarecarecarecarecarecarecarecarecarecarecarecarecare", "over and over"),
        ("care " * 16, "care"),
        ("!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!", "over and over"),
        ("I am a model. I am a model. I am a model. I am a model. I am a model. ", "loops"),
        ("法国的首都是巴黎，这是一个非常美丽的城市，有很多历史", "another script"),
        ("��������������������", "no text"),
    ],
)
def test_garbled(text: str, says: str) -> None:
    assert says in judge_text(text, prompt="The capital of France is")


def test_a_question_in_another_script_may_be_answered_in_it() -> None:
    assert judge_text("法国的首都是巴黎，这是一个非常美丽的城市，有很多历史", prompt="法国的首都是") == ""
