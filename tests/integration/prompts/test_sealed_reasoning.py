"""Reasoning that the client keeps and cannot read."""

import openai
import pytest

from service.wire.stream_rules import check_stream
from tests.integration.prompts.conversations import THOUGHT, TOOLS, first_turn, second_input, serving, tokens

OLD_KEY, NEW_KEY = "an old key of ours", "a new key of ours!"


def test_sealed_reasoning_stands_for_the_thought(client):
    output = [item.model_dump() for item in first_turn(client).output]
    assert THOUGHT not in output[0]["encrypted_content"]
    with_thought = tokens(client, second_input(output))
    sealed = [{**output[0], "content": None}, output[1]]
    assert tokens(client, second_input(sealed)) == with_thought
    emptied = [{**output[0], "content": None, "encrypted_content": None}, output[1]]
    assert tokens(client, second_input(emptied)) < with_thought
    answered = client.responses.create(model="works", input=second_input(sealed), tools=TOOLS, store=False)
    assert answered.output_text == "Done."


def test_it_comes_only_where_it_is_asked_for(client):
    assert first_turn(client, include=[]).output[0].encrypted_content is None


def test_what_has_been_changed_is_refused(client):
    output = [item.model_dump() for item in first_turn(client).output]
    sealed = output[0]["encrypted_content"]
    other = "B" if sealed[50] == "A" else "A"
    for wrong in (sealed[:-2], sealed[:50] + other + sealed[51:], "gAAAAA", "nonsense", "ü"):
        changed = [{**output[0], "encrypted_content": wrong}, output[1]]
        with pytest.raises(openai.BadRequestError) as caught:
            client.responses.create(model="works", input=second_input(changed), tools=TOOLS)
        assert (caught.value.code, caught.value.param) == (
            "invalid_encrypted_content",
            "input[1].encrypted_content",
        )


def test_it_belongs_to_the_key_that_it_was_made_for(client):
    output = [item.model_dump() for item in first_turn(client).output]
    with (
        openai.OpenAI(base_url=client.base_url, api_key="bob", max_retries=0) as bob,
        pytest.raises(openai.BadRequestError),
    ):
        bob.responses.create(model="works", input=second_input(output), tools=TOOLS)


def test_keys_rotate(tmp_path):
    with serving(tmp_path, "--sealing-keys", OLD_KEY) as client:
        output = [item.model_dump() for item in first_turn(client).output]
    with serving(tmp_path, "--sealing-keys", NEW_KEY, "--sealing-keys", OLD_KEY) as client:
        assert tokens(client, second_input(output)) > 0
        newer = [item.model_dump() for item in first_turn(client).output]
    with serving(tmp_path, "--sealing-keys", NEW_KEY) as client:
        assert tokens(client, second_input(newer)) > 0
        with pytest.raises(openai.BadRequestError):
            tokens(client, second_input(output))


def test_without_keys_in_the_settings_the_database_keeps_one(tmp_path):
    database = f"sqlite:///{tmp_path}/responses.db"
    with serving(tmp_path, "--database", database) as client:
        output = [item.model_dump() for item in first_turn(client).output]
    with serving(tmp_path, "--database", database) as client:
        assert tokens(client, second_input(output)) > 0


def test_hidden_reasoning_leaves_only_sealed(hiding, client):
    events = [
        event.model_dump(exclude_unset=True)
        for event in hiding.responses.create(model="works", input="Go", tools=TOOLS, stream=True)
    ]
    assert check_stream(events) == []
    assert THOUGHT not in str(events)
    reasoning, call = events[-1]["response"]["output"]
    assert (reasoning["type"], call["type"]) == ("reasoning", "function_call")
    assert events[-1]["response"]["usage"]["output_tokens_details"]["reasoning_tokens"] > 0
    # It goes round, through the client and through the store.
    shown = [item.model_dump() for item in first_turn(client).output]
    assert tokens(hiding, second_input([reasoning, call])) == tokens(client, second_input(shown))
    continued = hiding.responses.input_tokens.count(
        model="works",
        previous_response_id=events[-1]["response"]["id"],
        input=second_input([reasoning, call])[-1:],
        tools=TOOLS,
    )
    assert continued.input_tokens == tokens(client, second_input(shown))


def test_a_thought_does_not_come_back_as_a_summary(client):
    sealed = first_turn(client).output[0].encrypted_content
    with pytest.raises(openai.BadRequestError) as caught:
        client.responses.create(model="answers", input=[{"type": "compaction", "encrypted_content": sealed}])
    assert caught.value.param == "input[0].encrypted_content"
