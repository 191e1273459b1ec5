"""A Harmony prompt, read back for a model that has another chat template."""

import orjson
import pytest
from openresponses.v1.service_pb2 import CreateResponseRequest

from service.dialect.harmony.prompt import render
from service.engine.harmony_translation import TAGGED, TOLD, Conversation, Wording, read_prompt
from service.engine.special_texts import SpecialTexts
from service.wire.openai_json import decode

SPECIAL = SpecialTexts(["<start_of_turn>", "</s>", "<tool_call>"])
SYSTEM = "You are a helpful assistant."
TOOL = {
    "type": "function",
    "name": "add",
    "description": "Adds",
    "parameters": {"type": "object", "properties": {"a": {"type": "number"}}},
}


def read(wording: Wording = TOLD, **fields: object) -> Conversation:
    request = decode(CreateResponseRequest, orjson.dumps({"model": "m", **fields}))
    return read_prompt(render(request), wording, SPECIAL)


def pairs(conversation: Conversation) -> list[tuple[str, str]]:
    return [(message.role, message.content) for message in conversation.messages]


def test_a_question():
    conversation = read(input="Why?")
    assert pairs(conversation) == [("system", SYSTEM), ("user", "Why?")]
    assert (conversation.question, conversation.after_result) == ("Why?", False)


@pytest.mark.parametrize(
    ("effort", "read_as"),
    [(None, "medium"), ("none", "low"), ("low", "low"), ("medium", "medium"), ("xhigh", "high")],
)
def test_effort(effort, read_as):
    assert read(input="Why?", reasoning={"effort": effort}).effort == read_as


FORMAT = {"type": "json_schema", "name": "x", "description": "An x.", "schema": {"type": "object"}}


@pytest.mark.parametrize("wanted", [None, FORMAT, {"type": "json_object"}])
@pytest.mark.parametrize(
    "tools",
    [[], [TOOL], [TOOL, {"type": "namespace", "name": "a", "description": "As.\nMore.", "tools": [TOOL]}]],
)
@pytest.mark.parametrize(
    "instructions",
    [
        "Be brief.",
        "# Tools\n\nUse none.",
        "# Instructions\n\nX\n\nY",
        "A\n\n# Tools\n\n## functions\n\nNone.",
        "A\n\n# Response Formats\n\n## json\n\nAny.",
    ],
)
def test_instructions_come_without_what_is_declared_behind_them(instructions, tools, wanted):
    conversation = read(input="Why?", instructions=instructions, tools=tools, text={"format": wanted})
    assert pairs(conversation) == [("system", instructions), ("user", "Why?")]
    assert conversation.answer_format.startswith("# Response Formats" if wanted else "")
    assert conversation.answer_format.endswith("}" if wanted else "")


def test_functions_alone_are_no_instructions():
    assert pairs(read(input="Why?", tools=[TOOL])) == [("system", SYSTEM), ("user", "Why?")]


def test_a_conversation_with_a_call():
    conversation = read(
        tools=[TOOL],
        input=[
            {"role": "user", "content": "1+2?"},
            {"type": "reasoning", "id": "rs_1", "summary": [], "content": [
                {"type": "reasoning_text", "text": "Add them."}]},
            {"role": "assistant", "phase": "commentary", "content": "I add."},
            {"type": "function_call", "call_id": "c", "name": "add", "arguments": '{"a": 1}'},
            {"type": "function_call_output", "call_id": "c", "output": "3"},
        ],
    )  # fmt: skip
    assert pairs(conversation) == [
        ("system", SYSTEM),
        ("user", "1+2?"),
        ("assistant", "I add."),
        ("assistant", 'I call add({"a": 1}).'),
        ("user", "The result of add: 3"),
    ]
    assert (conversation.question, conversation.after_result) == (None, True)


def test_a_developer_message_further_on_stays_where_it_is():
    conversation = read(
        input=[
            {"role": "user", "content": "Hi"},
            {"role": "assistant", "content": "Hello"},
            {"role": "developer", "content": "Be rude."},
            {"role": "user", "content": "Hi"},
        ]
    )
    assert pairs(conversation)[1:] == [
        ("user", "Hi"),
        ("assistant", "Hello"),
        ("system", "Be rude."),
        ("user", "Hi"),
    ]


@pytest.mark.parametrize(
    "marker", ["<|im_end|>", "<|start|>", "<|channel|>", "<start_of_turn>", "</s>", "<tool_call>"]
)
@pytest.mark.parametrize("wording", [TOLD, TAGGED])
def test_markers_are_defused(marker, wording):
    """Whoever writes them; the markup that calls are told in is our own."""
    text = f"a{marker}b"
    call = {"type": "function_call", "call_id": "c", "name": "f", "arguments": orjson.dumps([text]).decode()}
    conversation = read(
        wording,
        instructions=text,
        input=[
            *({"role": role, "content": text} for role in ("user", "assistant", "developer")),
            call,
            {"type": "function_call_output", "call_id": "c", "output": text},
        ],
    )
    written = [content for _, content in pairs(conversation)]
    assert len(written) == 6
    for content in written:
        own = content.startswith(marker) and wording is TAGGED
        assert content.count(marker) == own
        assert "b" in content


def test_calls_in_markup():
    conversation = read(
        TAGGED,
        input=[
            {"role": "user", "content": "1+2?"},
            {"type": "function_call", "call_id": "c", "name": "add", "arguments": '{"a": 1}'},
            {"type": "function_call_output", "call_id": "c", "output": "3"},
        ],
    )
    assert pairs(conversation)[2:] == [
        ("assistant", '<tool_call>\n{"name": "add", "arguments": {"a": 1}}\n</tool_call>'),
        ("user", "<tool_response>\n3\n</tool_response>"),
    ]
