"""How many tokens a prompt has, and what becomes of one that is too long."""

from typing import Any

import openai
import pytest

from tests.integration.prompts.conversations import TOOLS, tokens


def test_counting_counts_what_the_response_would(client):
    fields: dict[str, Any] = {"model": "answers", "input": "Hi", "instructions": "Be kind.", "tools": TOOLS}
    counted = client.responses.input_tokens.count(**fields)
    assert counted.input_tokens == client.responses.create(**fields).usage.input_tokens
    with pytest.raises(openai.BadRequestError):
        client.responses.input_tokens.count(model="answers", input=[{"type": "brand_new"}])


def test_the_context_holds_a_token_less_than_it_has(client):
    def many(words: int) -> str:
        return "word" + " word" * words

    window = client.models.retrieve("answers").context_window
    words = window - 1 - client.responses.input_tokens.count(model="answers", input=many(0)).input_tokens
    counted = client.responses.input_tokens.count(model="answers", input=many(words))
    assert counted.input_tokens == window - 1
    full = client.responses.create(model="answers", input=many(words))
    assert (full.status, full.usage.output_tokens) == ("incomplete", 1)
    # What is counted need not fit.
    counted = client.responses.input_tokens.count(model="answers", input=many(words + 1))
    assert counted.input_tokens == window
    with pytest.raises(
        openai.BadRequestError, match=f"has {window} tokens.* context holds {window}"
    ) as caught:
        client.responses.create(model="answers", input=many(words + 1))
    assert (caught.value.code, caught.value.param) == ("context_length_exceeded", "input")


def test_truncation_drops_the_oldest_items(client):
    question = {"role": "user", "content": "And now?"}
    many = [{"role": "user", "content": f"{i} " + "word " * 20_000} for i in range(8)]
    with pytest.raises(openai.BadRequestError) as caught:
        client.responses.create(model="answers", input=[*many, question])
    assert caught.value.code == "context_length_exceeded"
    cut = client.responses.create(model="answers", input=[*many, question], truncation="auto")
    assert (cut.status, cut.truncation) == ("completed", "auto")
    assert cut.usage.input_tokens == tokens(client, [*many[3:], question], [])
    short = client.responses.create(model="answers", input=[question], truncation="auto")
    assert short.usage.input_tokens == tokens(client, [question], [])


def test_truncation_leaves_out_what_is_kept_and_can_no_longer_be_shown(client):
    """An output whose call was deleted: no request could mend it."""
    call = {"type": "function_call", "call_id": "c1", "name": "f", "arguments": "{}"}
    output = {"type": "function_call_output", "call_id": "c1", "output": "It is."}
    old, late = ({"role": "user", "content": f"{i} " + "word " * 60_000} for i in range(2))
    conversation = client.conversations.create(items=[old, call, output, late])
    kept = client.conversations.items.list(conversation.id, order="asc").data
    client.conversations.items.delete(kept[1].id, conversation_id=conversation.id)
    question = {"role": "user", "content": "And now?"}
    cut = client.responses.create(
        model="answers", conversation=conversation.id, input=[question], truncation="auto"
    )
    assert cut.usage.input_tokens == tokens(client, [late, question], [])
