"""A response shows from its beginning what is in force, and leaves out tools that are not offered."""

import json
from typing import Any

from service.engine.base import ModelInfo
from service.run.opening import opened_response, unoffered_tool_types
from service.wire.openai_json import encode
from tests.unit.request_documents import FUNCTION, GUIDED, request

UNGUIDED = ModelInfo(id="m", context_window_tokens=100, max_output_tokens=100, default_temperature=0.5)


def opened(model: ModelInfo = GUIDED, **fields: Any) -> dict[str, Any]:
    response = opened_response(request(**fields), model, response_id="resp_1", created_at=7)
    return json.loads(encode(response))


def test_the_response_shows_what_is_in_force():
    assert opened(UNGUIDED)["temperature"] == 0.5
    assert opened(UNGUIDED, temperature=0)["temperature"] == 0
    assert opened()["tool_choice"] == "auto"
    assert opened()["parallel_tool_calls"] is True
    assert opened(parallel_tool_calls=False)["parallel_tool_calls"] is False
    assert opened()["text"] == {"format": {"type": "text"}}
    assert opened()["store"] is True
    assert opened(store=False)["store"] is False
    assert opened(background=True)["status"] == "queued"
    assert opened(conversation="conv_1")["conversation"] == {"id": "conv_1"}
    assert opened(conversation={"id": "conv_1"})["conversation"] == {"id": "conv_1"}
    assert opened(service_tier="flex")["service_tier"] == "default"
    echoed = {
        "metadata": {"a": "b"},
        "user": "u",
        "prompt_cache_key": "k",
        "safety_identifier": "s",
        "max_output_tokens": 5,
        "instructions": "Be nice.",
        "previous_response_id": "resp_0",
    }
    assert opened(**echoed).items() >= echoed.items()


def test_tools_that_are_not_offered_are_left_out_and_named():
    tools = [{"type": "web_search"}, FUNCTION, {"type": "brand_new"}, {"type": "web_search"}]
    assert [tool["name"] for tool in opened(tools=tools)["tools"]] == ["f"]
    assert unoffered_tool_types(request(tools=tools)) == ["web_search", "brand_new"]
