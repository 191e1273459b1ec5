"""OpenAI's Agents SDK: an agent with a tool over two turns, streamed and not, and one with an output type."""

from collections.abc import AsyncIterator

import agents
import openai
import pytest
from pydantic import BaseModel

from tests.clients.agent_scripts import PERSON, SIZES


class Person(BaseModel):
    name: str
    age: int


@pytest.fixture
async def client(base_url: str) -> AsyncIterator[openai.AsyncOpenAI]:
    # It would send them to OpenAI.
    agents.set_tracing_disabled(True)
    async with openai.AsyncOpenAI(base_url=base_url, api_key="none", max_retries=0, timeout=20) as client:
        yield client


def weather_agent(client: openai.AsyncOpenAI, size: int, asked: list[str]) -> agents.Agent:
    @agents.function_tool
    def get_weather(city: str) -> str:
        """Current weather in a city."""
        asked.append(city)
        return "sunny"

    model = agents.OpenAIResponsesModel(f"weather-{size}", client)
    return agents.Agent(name="weather", instructions="Help.", tools=[get_weather], model=model)


@pytest.mark.parametrize("size", SIZES)
async def test_a_tool_over_two_turns(client, size):
    asked: list[str] = []
    result = await agents.Runner.run(weather_agent(client, size, asked), "How is Oslo?")
    assert result.final_output == "It is sunny in Oslo."
    assert asked == ["Oslo"]


@pytest.mark.parametrize("size", SIZES)
async def test_streamed(client, size):
    asked: list[str] = []
    result = agents.Runner.run_streamed(weather_agent(client, size, asked), "How is Oslo?")
    items = [
        event.item.type async for event in result.stream_events() if event.type == "run_item_stream_event"
    ]
    assert result.final_output == "It is sunny in Oslo."
    assert asked == ["Oslo"]
    assert items == ["reasoning_item", "tool_call_item", "tool_call_output_item", "message_output_item"]


async def test_forced_and_then_free(client):
    """The SDK forces the first call, and lets the model speak once the tool has answered."""
    asked: list[str] = []
    agent = weather_agent(client, 3, asked)
    agent = agent.clone(model_settings=agents.ModelSettings(tool_choice="required"))
    result = await agents.Runner.run(agent, "How is Oslo?")
    assert result.final_output == "It is sunny in Oslo."


@pytest.mark.parametrize("size", SIZES)
async def test_an_output_type(client, size):
    agent = agents.Agent(
        name="person", output_type=Person, model=agents.OpenAIResponsesModel(f"person-{size}", client)
    )
    assert (await agents.Runner.run(agent, "Ann is 5.")).final_output == Person(**PERSON)


async def test_what_continues_on_the_server(client):
    asked: list[str] = []
    agent = weather_agent(client, 3, asked)
    first = await agents.Runner.run(agent, "How is Oslo?", auto_previous_response_id=True)
    second = await agents.Runner.run(agent, "And now?", previous_response_id=first.last_response_id)
    assert second.final_output == "It is sunny in Oslo."
