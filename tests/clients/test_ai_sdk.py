"""Vercel's AI SDK: streamText with a tool over two steps, and generateObject."""

import pytest

from tests.clients.agent_scripts import PERSON, SIZES
from tests.clients.test_node import run_node


@pytest.mark.parametrize("size", SIZES)
def test_a_tool_over_two_steps_and_an_object(base_url, size):
    seen = run_node("ai_sdk.mjs", base_url, str(size))
    assert seen["errors"] == []
    assert seen["asked"] == ["Oslo"]
    assert seen["text"] == "It is sunny in Oslo."
    assert (seen["steps"], seen["finishReason"]) == (2, "stop")
    assert {"tool-call", "tool-result", "text-delta", "finish"} <= set(seen["kinds"])
    assert seen["usage"]["totalTokens"] > 0
    assert seen["object"] == PERSON
