"""Conversations made compact: `POST /v1/responses/compact`."""

import openai
import pytest

from service.api.responses import MAX_INPUT_ITEMS
from tests.integration.prompts.conversations import TOOLS, tokens

HI = {"role": "user", "content": "Hi"}


def test_a_compacted_conversation_goes_on_from_its_summary(client):
    long = [
        item
        for i in range(50)
        for item in (
            {"role": "user", "content": f"Question {i}?"},
            {"role": "assistant", "content": "A long answer. " * 20},
        )
    ]
    compacted = client.responses.compact(model="answers", input=long)
    assert compacted.object == "response.compaction"
    assert [item.type for item in compacted.output] == ["message"] * 50 + ["compaction"]
    # The package has no type for a user's message in an output.
    items = [item.model_dump(exclude_unset=True, warnings=False) for item in compacted.output]
    going_on = [*items, {"role": "user", "content": "And now?"}]
    assert tokens(client, going_on) < tokens(client, long) / 3
    assert client.responses.create(model="answers", input=going_on).output_text == "Done."
    changed = [{**items[-1], "encrypted_content": "nonsense"}]
    with pytest.raises(openai.BadRequestError) as caught:
        tokens(client, changed)
    assert caught.value.param == "input[0].encrypted_content"


def test_compaction_keeps_what_the_user_has_said_before(client):
    first = client.responses.create(model="answers", input="One")
    second = client.responses.create(model="answers", input="Two", previous_response_id=first.id)
    for given, said in (({}, ["One", "Two"]), ({"input": "Three"}, ["One", "Two", "Three"])):
        output = client.responses.compact(model="answers", previous_response_id=second.id, **given).output
        assert [item.content[0].text for item in output[:-1]] == said
        assert output[-1].type == "compaction"


def test_compaction_of_what_is_referred_to(client):
    first = client.responses.create(model="answers", input="One")
    asked = client.responses.input_items.list(first.id).data[0]
    references = [{"type": "item_reference", "id": item.id} for item in (asked, *first.output)]
    output = client.responses.compact(model="answers", input=references).output
    assert [item.content[0].text for item in output[:-1]] == ["One"]


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({}, "input"),
        ({"input": ""}, "input"),
        ({"input": []}, "input"),
        ({"input": "Hi", "conversation": "conv_1"}, "conversation"),
        ({"input": "Hi", "stream": True}, "stream"),
        ({"input": "Hi", "background": True}, "background"),
        ({"input": "Hi", "temperature": 99}, "temperature"),
        ({"input": "Hi", "include": ["x"]}, "include[0]"),
        ({"input": "Hi", "tools": [{"type": "function", "name": "!!"}]}, "tools[0].name"),
        ({"input": "Hi", "previous_response_id": "resp_1"}, "previous_response_id"),
        # A summary that the caller leaves no room for: trying again would not help.
        *(({"input": "Hi", "max_output_tokens": most}, "max_output_tokens") for most in (1, 4)),
        ({"input": [HI] * (MAX_INPUT_ITEMS + 1)}, "input"),
    ],
    ids=lambda value: str(value)[:60],
)
def test_wrong_requests_for_compaction(client, body, param):
    with pytest.raises((openai.BadRequestError, openai.NotFoundError)) as caught:
        client.post("/responses/compact", body={"model": "answers", **body}, cast_to=object)
    assert caught.value.param == param


def test_compaction_takes_what_agents_send(client):
    body = {"model": "answers", "input": "Hi", "tools": TOOLS, "parallel_tool_calls": True, "reasoning": {}}
    body |= {
        "text": {"format": {"type": "json_object"}},
        "instructions": "Be brief.",
        "tool_choice": "required",
    }
    answer = client.post("/responses/compact", body=body, cast_to=object)
    assert answer["output"][-1]["type"] == "compaction"


def test_a_summary_that_was_cut_is_none(client):
    with pytest.raises(openai.InternalServerError, match="longer than it may write"):
        client.with_options(max_retries=0).responses.compact(model="babbles", input="Hi")


def test_compaction_takes_as_many_items_as_any_request(client):
    """What the server asks beside them is none of the caller's."""
    output = client.responses.compact(model="answers", input=[HI] * MAX_INPUT_ITEMS).output
    assert len(output) == MAX_INPUT_ITEMS + 1


def test_compaction_of_what_is_kept(client):
    first = client.responses.create(model="answers", input="Hi")
    compacted = client.responses.compact(model="answers", input="More", previous_response_id=first.id)
    assert compacted.usage.input_tokens > tokens(client, [{"role": "user", "content": "More"}])
