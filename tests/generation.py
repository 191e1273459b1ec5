"""Generation requests, rendered as the service renders them."""

import json
from typing import Any

from openresponses.v1.service_pb2 import CreateResponseRequest

from service.dialect.callable_tools import request_tools
from service.dialect.harmony.dialect import HarmonyDialect
from service.engine.base import GenerationRequest
from service.engine.embedded import MODEL_ID
from service.run.answer_format import answer_format
from service.run.validation import guidance
from service.wire.openai_json import decode

DIALECT = HarmonyDialect()


def generation(question: str = "", **fields: Any) -> GenerationRequest:
    """A question or `input` to the bundled model at temperature 0, with further fields of OpenAI's JSON."""
    document = {"model": MODEL_ID, **({"input": question} if question else {}), **fields}
    request = decode(CreateResponseRequest, json.dumps(document).encode())
    return GenerationRequest(
        request_id="resp_1",
        model=MODEL_ID,
        prompt_token_ids=DIALECT.render(request),
        stop_token_ids=sorted(DIALECT.stop_token_ids),
        temperature=0,
        guidance=guidance(request_tools(request), answer_format(request.text.format)),
    )
