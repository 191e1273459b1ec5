"""The bundled model's engine, and what it says as openai-harmony reads it."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import openai_harmony as harmony

from service.dialect.harmony import vocabulary
from service.engine.base import GenerationRequest
from service.engine.embedded import MODEL_ID, bundled_model
from service.engine.llama_cpp import LlamaCppEngine
from tests.engine_contract import MAX_QUEUED_REQUESTS, SLOTS, chunks_of, tokens_of

WEATHER = {
    "type": "function",
    "name": "get_weather",
    "description": "Current weather in a city",
    "parameters": {
        "type": "object",
        "properties": {"city": {"type": "string"}, "unit": {"enum": ["celsius", "fahrenheit"]}},
        "required": ["city", "unit"],
        "additionalProperties": False,
    },
}


@asynccontextmanager
async def running_engine() -> AsyncIterator[LlamaCppEngine]:
    engine = LlamaCppEngine(bundled_model(), MODEL_ID, slots=SLOTS, max_queued_requests=MAX_QUEUED_REQUESTS)
    try:
        yield engine
    finally:
        await engine.close()


async def answer(engine: LlamaCppEngine, request: GenerationRequest) -> list[harmony.Message]:
    """What the model says, as openai-harmony reads it."""
    tokens = tokens_of(await chunks_of(engine, request))
    return vocabulary.load_encoding().parse_messages_from_completion_tokens(tokens, harmony.Role.ASSISTANT)


def text(message: harmony.Message) -> str:
    (content,) = message.content
    return content.text
