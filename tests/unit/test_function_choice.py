"""Which function a small model calls: words in common decide."""

import pytest

from service.engine.base import FunctionSchema, Guidance
from service.engine.function_choice import choose_function

WEATHER = FunctionSchema("get_weather", '{"properties": {"city": {}}}', "Current weather in a place")
EMAIL = FunctionSchema("sendEmail", None, "Writes to somebody")
PATCH = FunctionSchema("apply_patch", None)


def chosen(question: str | None, *, required: bool = False) -> str | None:
    choice = choose_function(Guidance((WEATHER, EMAIL, PATCH), call_required=required), question)
    return choice.name if choice else None


@pytest.mark.parametrize(
    ("question", "name"),
    [
        ("What is the weather in Paris?", "get_weather"),
        ("Which city is it?", "get_weather"),
        ("Please EMAIL Bob", "sendEmail"),
        ("Email Bob the weather of the city", "get_weather"),
        ("apply these patches", "apply_patch"),
        ("What is the capital of France?", None),
        ("Get the name of the function for the user", None),
        ("", None),
        (None, None),
    ],
)
def test_words_in_common_decide(question, name):
    assert chosen(question) == name


def test_a_required_call_is_made_whatever_the_words():
    assert chosen("Hello", required=True) == "get_weather"
    assert chosen(None, required=True) == "get_weather"
    assert chosen("Send an email", required=True) == "sendEmail"


def test_no_functions_no_call():
    assert choose_function(Guidance(), "weather") is None
