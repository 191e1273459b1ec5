"""Golden prompts: `prompts/*.json` holds requests and the prompt of each, line by line, with why it is so.

`history` holds the items of the responses that a request continues.
"""

import json
from pathlib import Path

import orjson
import pytest
from openresponses.v1.service_pb2 import CreateResponseRequest

from service.dialect.harmony import vocabulary
from service.dialect.harmony.prompt import render
from service.wire.openai_json import decode

PROMPTS = sorted((Path(__file__).parent / "prompts").glob("*.json"))


@pytest.mark.parametrize("path", PROMPTS, ids=lambda path: path.stem)
def test_prompt(path):
    golden = json.loads(path.read_text())
    assert golden["why"]
    request = decode(CreateResponseRequest, orjson.dumps({"model": "m", **golden["request"]}))
    earlier = decode(CreateResponseRequest, orjson.dumps({"input": golden.get("history", [])}))
    start_date = golden.get("conversation_start_date")
    prompt = render(request, earlier.input.items.items, conversation_start_date=start_date)
    assert vocabulary.load_encoding().decode(prompt).split("\n") == golden["prompt"]


def test_there_are_some():
    assert len(PROMPTS) >= 8
