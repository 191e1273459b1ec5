"""What is kept is listed in the forms that the openai package has types for, in whatever form it came."""

from typing import Any

import pytest
from openai.types.conversations import ConversationItem
from openai.types.responses import ResponseItem
from pydantic import TypeAdapter

LISTED: TypeAdapter[Any] = TypeAdapter(ResponseItem)
IN_CONVERSATION: TypeAdapter[Any] = TypeAdapter(ConversationItem)


def text(kind: str) -> dict[str, Any]:
    return {"type": kind, "text": "x"}


REFUSAL = {"type": "refusal", "refusal": "x"}
FILE = {"type": "input_file", "file_data": "data:text/plain;base64,eA==", "filename": "x.txt"}
TOLD, SAID = [text("input_text")], [text("output_text")]
FUNCTION_CALL = {"type": "function_call", "call_id": "c1", "name": "f", "arguments": "{}"}
CUSTOM_CALL = {"type": "custom_tool_call", "call_id": "c1", "name": "f", "input": "x"}

ITEMS: list[tuple[dict[str, Any], Any]] = [
    # What is sent, and the kinds of the parts that are listed, where there are any.
    *(
        ({"role": role, "content": content}, ["input_text"] * len(content))
        for role in ("user", "system", "developer")
        for content in ("x", TOLD, SAID, [REFUSAL], [*TOLD, *SAID])
    ),
    ({"role": "user", "content": [*SAID, FILE]}, ["input_text", "input_file"]),
    ({"role": "user", "content": [], "status": "incomplete"}, []),
    *(
        ({"role": "assistant", "content": content, **phase}, ["output_text"] * len(content))
        for content in ("x", TOLD, SAID, [*TOLD, *SAID])
        for phase in ({}, {"phase": "commentary"})
    ),
    ({"role": "assistant", "content": [*TOLD, REFUSAL]}, ["output_text", "refusal"]),
    ({"type": "reasoning", "summary": []}, None),
    ({"type": "reasoning", "summary": [text("summary_text")], "content": [text("reasoning_text")]}, None),
    (FUNCTION_CALL, None),
    ({**FUNCTION_CALL, "namespace": "n", "status": "incomplete"}, None),
    (CUSTOM_CALL, None),
]
OUTPUTS = [
    (call, {"type": f"{call['type']}_output", "call_id": "c1", "output": output}, kinds)
    for call in (FUNCTION_CALL, CUSTOM_CALL)
    for output, kinds in (
        ("x", None),
        (TOLD, ["input_text"]),
        (SAID, ["input_text"]),
        ([REFUSAL, FILE], ["input_text", "input_file"]),
    )
]
CASES = [([item], kinds) for item, kinds in ITEMS] + [
    ([call, output], kinds) for call, output, kinds in OUTPUTS
]


def kinds_of(item: dict[str, Any]) -> Any:
    parts = item["output"] if item["type"].endswith("_output") else item.get("content")
    return [part["type"] for part in parts] if isinstance(parts, list) else None


@pytest.mark.parametrize(("items", "kinds"), CASES)
def test_what_is_listed(http, items, kinds):
    question = [{"role": "user", "content": "Go on."}]
    response = http.post("/v1/responses", json={"model": "hello", "input": [*items, *question]}).json()
    path = f"/v1/responses/{response['id']}/input_items?order=asc"
    of_response = http.get(path).json()["data"][: len(items)]
    conversation = http.post("/v1/conversations", json={"items": items}).json()
    path = f"/v1/conversations/{conversation['id']}/items?order=asc"
    of_conversation = http.get(path).json()["data"]
    for listed, adapter in ((of_response, LISTED), (of_conversation, IN_CONVERSATION)):
        assert len(listed) == len(items)
        for item, sent in zip(listed, items, strict=True):
            adapter.validate_python(item)
            if item["type"] != "reasoning":
                assert item["status"] == sent.get("status", "completed")
        if items[0].get("type") != "reasoning":
            assert kinds_of(listed[-1]) == kinds


def test_what_is_compacted(http):
    compacted = http.post("/v1/responses/compact", json={"model": "hello", "input": "Hi"}).json()
    conversation = http.post("/v1/conversations", json={"items": compacted["output"]}).json()
    listed = http.get(f"/v1/conversations/{conversation['id']}/items?order=asc").json()["data"]
    assert [item["type"] for item in listed] == ["message", "compaction"]
    for item in listed:
        LISTED.validate_python(item)
        IN_CONVERSATION.validate_python(item)
