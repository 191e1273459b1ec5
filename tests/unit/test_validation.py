"""What a request may say: wrong values and what is not offered are refused by name, the rest is accepted."""

from dataclasses import replace

import pytest

from service.errors import InvalidRequest
from service.run.validation import top_logprobs, validate
from tests.unit.request_documents import FUNCTION, GUIDED, LIMITS, OTHER, request

REFUSED = [
    ({"temperature": -0.1}, "temperature"),
    ({"temperature": 2.1}, "temperature"),
    ({"top_p": 0}, "top_p"),
    ({"top_p": 1.1}, "top_p"),
    ({"max_output_tokens": 0}, "max_output_tokens"),
    ({"max_output_tokens": -5}, "max_output_tokens"),
    ({"stream_options": {"stream_interval": 0}}, "stream_options.stream_interval"),
    ({"stream_options": {"stream_interval": 65}}, "stream_options.stream_interval"),
    ({"stream_options": {"stream_interval_ms": -1}}, "stream_options.stream_interval_ms"),
    ({"stream_options": {"stream_interval_ms": 1001}}, "stream_options.stream_interval_ms"),
    ({"metadata": {str(i): "" for i in range(17)}}, "metadata"),
    ({"metadata": {"k" * 65: ""}}, "metadata"),
    ({"metadata": {"k": "v" * 513}}, "metadata"),
    ({"tools": [{"type": "function", "name": "no spaces"}]}, "tools[0].name"),
    ({"tools": [FUNCTION, {"type": "function", "name": ""}]}, "tools[1].name"),
    ({"tools": [FUNCTION, FUNCTION]}, "tools[1].name"),
    ({"tools": [OTHER], "tool_choice": {"type": "function", "name": "nobody"}}, "tool_choice.name"),
    ({"tool_choice": "required"}, "tool_choice"),
    ({"tools": [FUNCTION], "tool_choice": {"type": "web_search_preview"}}, "tool_choice.type"),
    ({"background": True, "store": False}, "store"),
    ({"include": ["brand.new"]}, "include[0]"),
    ({"include": ["message.output_text.logprobs"]}, "include[0]"),
    ({"top_logprobs": 3}, "top_logprobs"),
    ({"max_tool_calls": 0}, "max_tool_calls"),
    ({"presence_penalty": 2.5}, "presence_penalty"),
    ({"frequency_penalty": -2.5}, "frequency_penalty"),
    ({"tools": [{"type": "custom", "name": "a b"}]}, "tools[0].name"),
    ({"tools": [FUNCTION, {"type": "custom", "name": "f"}]}, "tools[1].name"),
    (
        {
            "tools": [
                {
                    "type": "custom",
                    "name": "c",
                    "format": {"type": "grammar", "syntax": "ebnf", "definition": "x"},
                }
            ]
        },
        "tools[0].format.syntax",
    ),
    ({"tools": [{"type": "namespace", "name": "functions", "tools": [FUNCTION]}]}, "tools[0].name"),
    (
        {"tools": [{"type": "namespace", "name": "n", "tools": [FUNCTION, FUNCTION]}]},
        "tools[0].tools[1].name",
    ),
    ({"tools": [{"type": "namespace", "name": "n", "tools": []}] * 2}, "tools[1].name"),
    ({"tools": [FUNCTION], "tool_choice": {"type": "custom", "name": "f"}}, "tool_choice.name"),
    (
        {
            "tools": [FUNCTION],
            "tool_choice": {"type": "allowed_tools", "mode": "auto", "tools": [{"type": "web_search"}]},
        },
        "tool_choice.tools[0].type",
    ),
    (
        {"tools": [FUNCTION], "tool_choice": {"type": "allowed_tools", "mode": "required", "tools": []}},
        "tool_choice",
    ),
    ({"conversation": "conv_1", "store": False}, "store"),
    ({"prompt": {"id": "pmpt_1"}}, "prompt"),
    ({"moderation": {"model": "x"}}, "moderation"),
    ({"context_management": [{"type": "compaction"}]}, "context_management"),
    ({"prompt_cache_options": {"mode": "explicit"}}, "prompt_cache_options"),
    ({"image": {"context_compression": "enabled"}}, "image"),
    ({"access_programs": {"cyber": "standard"}}, "access_programs"),
    ({"background_options": {"completion_window": "2h"}}, "background_options.completion_window"),
    ({"reasoning": {"context": "all_turns"}}, "reasoning.context"),
    ({"reasoning": {"mode": "pro"}}, "reasoning.mode"),
    ({"stream_options": {"include_obfuscation": True}}, "stream_options.include_obfuscation"),
]


@pytest.mark.parametrize(("fields", "param"), REFUSED)
def test_refused_by_name(fields, param):
    with pytest.raises(InvalidRequest) as caught:
        validate(request(**fields), GUIDED, LIMITS)
    assert caught.value.param == param
    assert "\n" not in caught.value.message


ACCEPTED = [
    {"max_tool_calls": 3},
    {"reasoning": {"summary": "auto", "context": "auto", "mode": "standard"}},
    {"background_options": {"completion_window": "soonest", "continuation_id": "x"}, "background": True},
    {"prompt_cache_retention": "24h"},
    {"presence_penalty": -2, "frequency_penalty": 2, "seed": 7},
    {"tools": [{"type": "custom", "name": "c"}, FUNCTION], "tool_choice": {"type": "custom", "name": "c"}},
    {"tools": [FUNCTION, {"type": "namespace", "name": "n", "tools": [FUNCTION]}]},
    {
        "tools": [{"type": "namespace", "name": "n", "tools": [OTHER]}],
        "tool_choice": {"type": "function", "name": "g"},
    },
    {"text": {"format": {"type": "json_object"}}},
    {},
    {"temperature": 0},
    {"temperature": 2},
    {"top_p": 1},
    {"background": False},
    {"truncation": "disabled"},
    {"truncation": "auto"},
    {"top_logprobs": 0},
    {"include": []},
    {"text": {"format": {"type": "text"}, "verbosity": "low"}},
    {"reasoning": None},
    {"store": True},
    {"service_tier": "auto", "user": "u", "prompt_cache_key": "k", "safety_identifier": "s"},
    {"tools": [FUNCTION, OTHER], "tool_choice": "auto"},
    {"tools": [FUNCTION], "tool_choice": {"type": "function", "name": "f"}},
    {"tools": [FUNCTION], "tool_choice": "required"},
    {"tools": [{"type": "web_search"}, {"type": "brand_new"}]},
    {"stream_options": {"stream_interval": 64, "stream_interval_ms": 0, "include_obfuscation": False}},
]


@pytest.mark.parametrize("fields", ACCEPTED)
def test_accepted(fields):
    validate(request(**fields), GUIDED, LIMITS)


def test_log_probabilities_of_a_model_that_gives_them():
    model = replace(GUIDED, logprobs=True)
    fields = {"include": ["message.output_text.logprobs"], "top_logprobs": 3}
    validate(request(**fields), model, LIMITS)
    assert top_logprobs(request(**fields)) == 3
    assert top_logprobs(request(include=fields["include"])) == 0
    assert top_logprobs(request()) is None
    with pytest.raises(InvalidRequest) as caught:
        validate(request(top_logprobs=3), model, LIMITS)
    assert caught.value.param == "top_logprobs"
