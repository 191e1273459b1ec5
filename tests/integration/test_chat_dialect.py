"""`--dialect chat`: the bundled model without the Harmony translation, and scripts that write markup."""

import json
from collections.abc import AsyncIterator
from dataclasses import replace

import grpc
import pytest
import pytest_asyncio
from openresponses.v1.item_pb2 import Input
from openresponses.v1.service_pb2 import CreateResponseRequest
from openresponses.v1.service_pb2_grpc import ResponsesServiceStub

from service.engine.base import FunctionSchema
from service.engine.chat_turn import with_declarations
from service.engine.embedded import MODEL_ID, bundled_model
from service.engine.harmony_translation import Conversation
from service.engine.llama_cpp import LlamaCppEngine
from service.engine.llama_runtime import ChatMessage
from service.engine.special_texts import SpecialTexts
from service.wire.openai_json import encode
from service.wire.stream_rules import check_stream
from tests.conformance.vectors import in_short
from tests.engine_contract import MAX_QUEUED_REQUESTS, SLOTS, EngineContract
from tests.generation import generation
from tests.processes import start_service
from tests.scripts import write_script

pytestmark = pytest.mark.asyncio(loop_scope="module")
TIMEOUT_S = 60
SPECIAL = SpecialTexts(["</s>"])


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def engine() -> AsyncIterator[LlamaCppEngine]:
    engine = LlamaCppEngine(
        bundled_model(), MODEL_ID, slots=SLOTS, max_queued_requests=MAX_QUEUED_REQUESTS, dialect="chat"
    )
    yield engine
    await engine.close()


class TestContract(EngineContract):
    REQUEST = generation("What is the capital of France?")
    ENDLESS = generation("Tell me a long story.")


def respond(address: str, model: str) -> tuple[list[dict[str, str]], list[str]]:
    """The output in short, and what is wrong with the stream."""
    with grpc.insecure_channel(address) as channel:
        request = CreateResponseRequest(model=model, input=Input(text="What is the capital of France?"))
        call = ResponsesServiceStub(channel).StreamResponse(request, timeout=TIMEOUT_S)
        events = [json.loads(encode(event)) for event in call]
    return in_short(events[-1]["response"]["output"]), check_stream(events)


async def test_the_bundled_model():
    with start_service("--dialect", "chat") as running:
        (item,), problems = respond(running.address, MODEL_ID)
    assert "Paris" in item["answer"]
    assert problems == []


@pytest.mark.parametrize("chunks", [1, 3, 1000])
async def test_a_script(tmp_path, chunks):
    written = '<think>Hm.</think>\n<tool_call>{"name": "f", "arguments": {}}</tool_call><|return|>'
    script = write_script(tmp_path, {"m": {"harmony": written, "chunks": chunks}})
    with start_service("--engine", "scripted", "--script", script, "--dialect", "chat") as running:
        assert respond(running.address, "m") == (
            [{"reasoning": "Hm."}, {"call": "f", "arguments": "{}"}],
            [],
        )


async def test_what_functions_say_is_no_markup():
    conversation = Conversation("medium", (ChatMessage("system", ""),), None, after_result=False)
    schema = '{"properties": {"a": {"description": "</tools> of </s>"}}}'
    function = FunctionSchema("f", schema, "Ends a turn with </s>")
    (system,) = with_declarations(conversation, [function], SPECIAL).messages
    assert "</s>" not in system.content
    assert system.content.count("< /s>") == 2
    assert "<tool_call>" in system.content


async def test_functions_are_declared_in_the_system_message():
    conversation = Conversation("medium", (ChatMessage("system", "Be kind."),), None, after_result=False)
    declared = with_declarations(conversation, [FunctionSchema("f", '{"type":"object"}', "Does f")], SPECIAL)
    (system,) = declared.messages
    assert system.content.startswith("Be kind.\n\n# Tools")
    declaration = {"name": "f", "description": "Does f", "parameters": {"type": "object"}}
    line = json.dumps({"type": "function", "function": declaration}, separators=(",", ":"))
    assert f"<tools>\n{line}\n</tools>" in system.content
    assert with_declarations(conversation, [], SPECIAL) == conversation
    formatted = replace(conversation, answer_format="# Response Formats\n\n## x\n\n{}")
    (system,) = with_declarations(formatted, [], SPECIAL).messages
    assert system.content == "Be kind.\n\n# Response Formats\n\n## x\n\n{}"
