"""Going on without a store: sealed reasoning, compaction, counting, truncation; and hidden reasoning."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import openai
import pytest

from service.api.responses import MAX_INPUT_ITEMS
from service.wire.stream_rules import check_stream
from tests.processes import client_of, start_gateway, start_service
from tests.scripts import write_script

THOUGHT = "A secret thought about Oslo."
CALL = (
    f"<|channel|>analysis<|message|>{THOUGHT}<|end|><|start|>assistant"
    "<|channel|>commentary to=functions.f <|constrain|>json<|message|>{}<|call|>"
)
ANSWER = "<|channel|>final<|message|>Done.<|return|>"
TURNS = {
    "works": {"turns": [{"harmony": CALL, "chunks": 3}, {"harmony": ANSWER}]},
    "babbles": {"harmony": ANSWER.removesuffix("<|return|>"), "finish_reason": "length"},
    "answers": {"harmony": "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant" + ANSWER},
}
TOOLS = [{"type": "function", "name": "f", "parameters": {"type": "object", "properties": {}}}]
SEALED = ["reasoning.encrypted_content"]
HI = {"role": "user", "content": "Hi"}
OLD_KEY, NEW_KEY = "an old key of ours", "a new key of ours!"


@contextmanager
def serving(folder: Path, *flags: str) -> Iterator[openai.OpenAI]:
    script = write_script(folder, TURNS)
    with (
        start_service("--engine", "scripted", "--script", script, *flags) as service,
        start_gateway(service.address) as gateway,
        client_of(gateway) as client,
    ):
        yield client


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[openai.OpenAI]:
    with serving(tmp_path_factory.mktemp("script")) as client:
        yield client


@pytest.fixture(scope="module")
def hiding(tmp_path_factory: pytest.TempPathFactory) -> Iterator[openai.OpenAI]:
    with serving(tmp_path_factory.mktemp("script"), "--no-show-reasoning") as client:
        yield client


def first_turn(client: openai.OpenAI, **fields: Any) -> Any:
    fields = {"store": False, "include": SEALED, **fields}
    return client.responses.create(model="works", input="Go", tools=TOOLS, **fields)


def second_input(output: list[dict[str, Any]]) -> list[dict[str, Any]]:
    answer = {"type": "function_call_output", "call_id": output[-1]["call_id"], "output": "ok"}
    return [{"role": "user", "content": "Go"}, *output, answer]


def tokens(client: openai.OpenAI, items: list[dict[str, Any]], tools: Any = TOOLS) -> int:
    return client.responses.input_tokens.count(model="works", input=items, tools=tools).input_tokens


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


def test_a_thought_does_not_come_back_as_a_summary(client):
    sealed = first_turn(client).output[0].encrypted_content
    with pytest.raises(openai.BadRequestError) as caught:
        client.responses.create(model="answers", input=[{"type": "compaction", "encrypted_content": sealed}])
    assert caught.value.param == "input[0].encrypted_content"


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


def test_a_file_is_read_and_an_image_refused(client):
    file = {"type": "input_file", "filename": "a.txt", "file_data": "data:text/plain;base64,SGVsbG8="}
    with_file = [{"role": "user", "content": [file, {"type": "input_text", "text": "What is it?"}]}]
    written = [{"role": "user", "content": "File a.txt:\n\nHello\n\nWhat is it?"}]
    assert tokens(client, with_file) == tokens(client, written)
    image = {"type": "input_image", "image_url": "data:image/png;base64,AAAA"}
    with pytest.raises(openai.BadRequestError) as caught:
        client.responses.create(model="answers", input=[{"role": "user", "content": [image]}])
    assert caught.value.param == "input[0].content[0]"
