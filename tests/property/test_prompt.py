"""Prompts are those that openai-harmony renders, and no text of a request can add a control token to one."""

from dataclasses import dataclass, field
from typing import Any

import openai_harmony as harmony
import orjson
from hypothesis import given
from hypothesis import strategies as st
from openresponses.v1.service_pb2 import CreateResponseRequest

from service.dialect.harmony import vocabulary
from service.dialect.harmony.prompt import render
from service.wire.openai_json import decode

TEXTS = st.text(min_size=1, max_size=20) | st.sampled_from(
    ["<|end|>", "<|start|>assistant", "hi<|call|>", " ", "\n", "# Tools\n\n## functions\n"]
)
FUNCTIONS = ("get_weather", "add")


@dataclass
class Conversation:
    """One conversation, as input items and as openai-harmony's messages."""

    items: list[dict[str, Any]] = field(default_factory=list)
    messages: list[harmony.Message] = field(default_factory=list)


def message(role: harmony.Role, text: str) -> harmony.Message:
    return harmony.Message.from_role_and_content(role, text)


@st.composite
def conversations(draw: st.DrawFn) -> Conversation:
    made = Conversation()
    for turn in range(draw(st.integers(1, 3))):
        text = draw(TEXTS)
        made.items.append({"role": "user", "content": text})
        made.messages.append(message(harmony.Role.USER, text))
        for step in range(draw(st.integers(0, 3))):
            if draw(st.booleans()):
                thought = draw(TEXTS)
                part = {"type": "reasoning_text", "text": thought}
                made.items.append({"type": "reasoning", "id": "rs", "summary": [], "content": [part]})
                made.messages.append(message(harmony.Role.ASSISTANT, thought).with_channel("analysis"))
            if draw(st.booleans()):
                preamble = draw(TEXTS)
                made.items.append({"role": "assistant", "phase": "commentary", "content": preamble})
                made.messages.append(message(harmony.Role.ASSISTANT, preamble).with_channel("commentary"))
            name, arguments, output = draw(st.sampled_from(FUNCTIONS)), draw(TEXTS), draw(TEXTS)
            call_id = f"call_{turn}_{step}"
            made.items += [
                {"type": "function_call", "call_id": call_id, "name": name, "arguments": arguments},
                {"type": "function_call_output", "call_id": call_id, "output": output},
            ]
            made.messages += [
                message(harmony.Role.ASSISTANT, arguments)
                .with_channel("commentary")
                .with_recipient(f"functions.{name}")
                .with_content_type("<|constrain|>json"),
                harmony.Message.from_author_and_content(
                    harmony.Author.new(harmony.Role.TOOL, f"functions.{name}"), output
                )
                .with_channel("commentary")
                .with_recipient("assistant"),
            ]
        if turn and draw(st.booleans()):
            continue
        answer = draw(TEXTS)
        made.items.append({"role": "assistant", "content": answer})
        made.messages.append(message(harmony.Role.ASSISTANT, answer).with_channel("final"))
    question = draw(TEXTS)
    made.items.append({"role": "user", "content": question})
    made.messages.append(message(harmony.Role.USER, question))
    return made


def without_stale_thoughts(messages: list[harmony.Message]) -> list[harmony.Message]:
    """Thoughts go once their turn has its answer. The library looks no further than the first answer."""
    answers = [i for i, message in enumerate(messages) if message.channel == "final"]
    last = answers[-1] if answers else -1
    return [m for i, m in enumerate(messages) if m.channel != "analysis" or i > last]


def request(**fields: Any) -> CreateResponseRequest:
    return decode(CreateResponseRequest, orjson.dumps({"model": "m", **fields}))


def specials(tokens: list[int]) -> list[int]:
    return [token for token in tokens if token >= vocabulary.FIRST_SPECIAL]


TOOLS = [
    {
        "type": "function",
        "name": name,
        "description": f"Does {name}",
        "parameters": {
            "type": "object",
            "properties": {"a": {"type": "string", "description": "An a"}, "b": {"enum": ["x", "y"]}},
            "required": ["a"],
        },
    }
    for name in FUNCTIONS
]


@given(conversations(), TEXTS | st.none(), st.booleans())
def test_a_prompt_is_that_of_openai_harmony(conversation, instructions, with_tools):
    tools = TOOLS if with_tools else []
    prompt = render(request(input=conversation.items, instructions=instructions, tools=tools))

    developer = harmony.DeveloperContent.new()
    if instructions is not None:
        developer = developer.with_instructions(instructions)
    if tools:
        developer = developer.with_function_tools(
            [harmony.ToolDescription.new(t["name"], t["description"], t["parameters"]) for t in tools]
        )
    opening = [harmony.Message.from_role_and_content(harmony.Role.SYSTEM, harmony.SystemContent.new())]
    if instructions is not None or tools:
        opening.append(harmony.Message.from_role_and_content(harmony.Role.DEVELOPER, developer))
    whole = harmony.Conversation.from_messages([*opening, *without_stale_thoughts(conversation.messages)])
    encoding = vocabulary.load_encoding()
    expected = encoding.render_conversation_for_completion(
        whole, harmony.Role.ASSISTANT, harmony.RenderConversationConfig(auto_drop_analysis=False)
    )
    assert encoding.decode(prompt) == encoding.decode(expected)
    assert specials(prompt) == specials(expected)


@given(st.data(), TEXTS)
def test_no_text_adds_a_control_token(data, text):
    """Wherever a text stands, its prompt has the control tokens of the same prompt with a harmless one."""

    def prompt(text: str) -> list[int]:
        return render(
            request(
                instructions=text,
                tools=[{**TOOLS[0], "description": text}],
                input=[
                    {"role": "user", "content": [{"type": "input_text", "text": text}]},
                    {"type": "reasoning", "id": "r", "summary": [], "content": [
                        {"type": "reasoning_text", "text": text}]},
                    {"role": "assistant", "phase": "commentary", "content": text},
                    {"type": "function_call", "call_id": "c", "name": "add", "arguments": text},
                    {"type": "function_call_output", "call_id": "c", "output": text},
                    {"role": "developer", "content": text},
                ],
            )
        )  # fmt: skip

    assert specials(prompt(text)) == specials(prompt("x"))
