"""Responses in the background go on by themselves, and can be followed by many, from any event on."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import openai
import pytest

from service.wire.stream_rules import check_stream
from tests.integration.background.turns import plain
from tests.streams import with_joined_deltas


def test_it_is_queued_at_once_and_goes_on_by_itself(client):
    response = client.responses.create(model="slow", input="Hi", background=True)
    assert (response.status, response.background, response.store) == ("queued", True, True)
    assert client.responses.retrieve(response.id).status in ("queued", "in_progress")
    events = plain(client.responses.retrieve(response.id, stream=True))
    assert [event["type"] for event in events[:3]] == [
        "response.created",
        "response.queued",
        "response.in_progress",
    ]
    assert check_stream(events) == []
    done = client.responses.retrieve(response.id)
    assert done.model_dump(exclude_unset=True) == events[-1]["response"]
    assert done.output_text == "word " * 50
    # It can be continued like any other.
    assert client.responses.create(model="short", input="And?", previous_response_id=done.id).output_text


def test_the_events_can_be_had_from_any_number_on_as_often_as_one_likes(client):
    response = client.responses.create(model="short", input="Hi", background=True)
    events = plain(client.responses.retrieve(response.id, stream=True))
    for after in range(-1, len(events)):
        resumed = plain(client.responses.retrieve(response.id, stream=True, starting_after=after))
        assert resumed == events[after + 1 :]
    for after in (len(events), 2**31 - 1):
        with pytest.raises(openai.BadRequestError) as caught:
            client.responses.retrieve(response.id, stream=True, starting_after=after)
        assert caught.value.param == "starting_after"


@pytest.mark.parametrize("after", [10_000, 2**31 - 1])
def test_a_number_that_has_not_come_yet_is_refused_at_once(client, elsewhere, after):
    """Nobody has seen it; and whoever waited for it would not hear of the end."""
    response = client.responses.create(model="endless", input="Hi", background=True)
    for reader in (client, elsewhere):
        with pytest.raises(openai.BadRequestError) as caught:
            reader.responses.retrieve(response.id, stream=True, starting_after=after)
        assert caught.value.param == "starting_after"
    client.responses.cancel(response.id)


@pytest.mark.parametrize("seen", [1, 3, 10])
def test_a_client_that_leaves_comes_back_to_the_rest(client, elsewhere, seen):
    """Here and through another service on the same database."""
    stream = client.responses.create(model="slow", input="Hi", background=True, stream=True)
    first = [next(stream) for _ in range(seen)]
    stream.close()
    response_id = first[0].response.id
    for other in (client, elsewhere):
        rest = list(other.responses.retrieve(response_id, stream=True, starting_after=seen - 1))
        events = plain([*first, *rest])
        assert check_stream(events) == []
        assert events[-1]["response"]["status"] == "completed"


def test_many_readers_see_the_same(client, elsewhere):
    response = client.responses.create(model="slow", input="Hi", background=True)

    def read(reader: openai.OpenAI) -> list[dict[str, Any]]:
        return plain(reader.responses.retrieve(response.id, stream=True))

    with ThreadPoolExecutor(8) as pool:
        seen = list(pool.map(read, [client, elsewhere] * 4))
    assert all(events == seen[0] for events in seen)
    assert check_stream(seen[0]) == []


def test_it_is_the_response_that_a_waiting_client_would_get(client):
    waiting = plain(client.responses.create(model="short", input="Hi", stream=True))
    alone = plain(client.responses.create(model="short", input="Hi", stream=True, background=True))

    def essence(events: list[dict[str, Any]]) -> list[tuple[str, Any]]:
        return [
            (event["type"], event.get("delta") or event.get("text"))
            for event in with_joined_deltas(events)
            if event["type"] != "response.queued"
        ]

    assert essence(alone) == essence(waiting)
