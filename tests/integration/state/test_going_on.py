"""A request goes on from what is kept: from a response, a chain of them, or items by their ids."""

from typing import Any

import openai
import pytest

from tests.processes import client_of
from tests.scripts import FUNCTION


def test_a_response_continues_another(client):
    first = client.responses.create(
        model="weather", input="How is Oslo?", tools=[FUNCTION], instructions="Be brief."
    )
    answer = {"type": "function_call_output", "call_id": first.output[0].call_id, "output": "sunny"}
    second = client.responses.create(
        model="weather", input=[answer], tools=[FUNCTION], previous_response_id=first.id
    )
    assert second.output_text == "It is sunny in Oslo."
    assert second.previous_response_id == first.id
    assert second.instructions is None
    # The whole conversation, sent at once, makes the same prompt.
    whole = [{"role": "user", "content": "How is Oslo?"}, *first.output, answer]
    again = client.responses.create(model="weather", input=whole, tools=[FUNCTION])
    assert again.usage.input_tokens == second.usage.input_tokens
    assert [item.type for item in client.responses.input_items.list(second.id)] == ["function_call_output"]


def test_what_is_not_kept_itself_may_continue_what_is(client):
    first = client.responses.create(model="hello", input="Hi")
    kept = client.responses.create(model="hello", input="And?", previous_response_id=first.id)
    not_kept = client.responses.create(
        model="hello", input="And?", previous_response_id=first.id, store=False
    )
    assert not_kept.usage.input_tokens == kept.usage.input_tokens
    assert (not_kept.store, not_kept.previous_response_id) == (False, first.id)


def test_a_long_chain(client):
    last = client.responses.create(model="hello", input="0")
    for i in range(1, 12):
        last = client.responses.create(model="hello", input=str(i), previous_response_id=last.id)
    history: list[Any] = []
    for i in range(12):
        history.append({"role": "user", "content": str(i)})
        if i < 11:
            history.append({"role": "assistant", "content": "Hello, wörld! 👋 How are you?"})
    assert (
        last.usage.input_tokens
        == client.responses.input_tokens.count(model="hello", input=history).input_tokens
    )


def test_what_is_missing_or_foreign_is_not_found(gateway, client):
    mine = client.responses.create(model="hello", input="Hi")
    gone = client.responses.create(model="hello", input="And?", previous_response_id=mine.id)
    client.responses.delete(mine.id)
    with client_of(gateway, "bob") as bob:
        theirs = bob.responses.create(model="hello", input="Hi")
    for previous in ("resp_never", theirs.id, mine.id, gone.id, "x" * 500):
        for stream in (False, True):
            with pytest.raises(openai.NotFoundError) as caught:
                client.responses.create(
                    model="hello", input="Hi", previous_response_id=previous, stream=stream
                )
            assert (caught.value.code, caught.value.param) == (
                "previous_response_not_found",
                "previous_response_id",
            )


def test_items_are_referred_to_by_their_ids(client):
    first = client.responses.create(model="hello", input="Hi")
    asked = client.responses.input_items.list(first.id).data[0]
    references = [{"type": "item_reference", "id": item.id} for item in (asked, *first.output)]
    by_reference = client.responses.create(
        model="hello", input=[*references, {"role": "user", "content": "And?"}]
    )
    chained = client.responses.create(model="hello", input="And?", previous_response_id=first.id)
    assert by_reference.usage.input_tokens == chained.usage.input_tokens
    with pytest.raises(openai.NotFoundError) as caught:
        client.responses.create(model="hello", input=[{"type": "item_reference", "id": "msg_1"}])
    assert caught.value.param == "input[0].id"


def test_only_one_kind_of_context(client):
    response = client.responses.create(model="hello", input="Hi")
    conversation = client.conversations.create()
    with pytest.raises(openai.BadRequestError) as caught:
        client.responses.create(
            model="hello", input="Hi", previous_response_id=response.id, conversation=conversation.id
        )
    assert caught.value.param == "previous_response_id"
