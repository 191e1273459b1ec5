"""LangChain's ChatOpenAI on the Responses API: answers, streams, tools and structured output."""

import pytest
from langchain_core.messages import HumanMessage, ToolMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from pydantic import BaseModel

from tests.clients.agent_scripts import PERSON, SIZES


class Person(BaseModel):
    """A person."""

    name: str
    age: int


@tool
def get_weather(city: str) -> str:
    """Current weather in a city."""
    return f"sunny in {city}"


def chat(base_url: str, model: str) -> ChatOpenAI:
    return ChatOpenAI(
        model=model, base_url=base_url, api_key="none", use_responses_api=True, max_retries=0, timeout=20
    )


@pytest.mark.parametrize("size", SIZES)
def test_a_tool_over_two_turns(base_url, size):
    model = chat(base_url, f"weather-{size}").bind_tools([get_weather])
    messages = [HumanMessage("How is Oslo?")]
    asked = model.invoke(messages)
    (call,) = asked.tool_calls
    assert (call["name"], call["args"]) == ("get_weather", {"city": "Oslo"})
    assert asked.usage_metadata["output_token_details"]["reasoning"] > 0
    messages += [asked, ToolMessage(get_weather.invoke(call["args"]), tool_call_id=call["id"])]
    assert model.invoke(messages).text == "It is sunny in Oslo."
    streamed = list(model.stream(messages))
    assert "".join(chunk.text for chunk in streamed) == "It is sunny in Oslo."


@pytest.mark.parametrize("size", SIZES)
def test_a_streamed_call(base_url, size):
    model = chat(base_url, f"weather-{size}").bind_tools([get_weather])
    whole = None
    for chunk in model.stream("How is Oslo?"):
        whole = chunk if whole is None else whole + chunk
    assert [(call["name"], call["args"]) for call in whole.tool_calls] == [("get_weather", {"city": "Oslo"})]


@pytest.mark.parametrize("size", SIZES)
def test_structured_output(base_url, size):
    model = chat(base_url, f"person-{size}").with_structured_output(Person)
    assert model.invoke("Ann is 5.") == Person(**PERSON)


def test_what_continues_on_the_server(base_url):
    model = chat(base_url, "hello")
    first = model.invoke("Hi")
    second = model.invoke("And now?", previous_response_id=first.response_metadata["id"])
    assert second.text == "Hello, wörld! 👋 How are you?"
