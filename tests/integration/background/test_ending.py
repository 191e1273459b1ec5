"""Responses in the background are cancelled, deleted, refused or fail: once, and for everyone who reads."""

import time
from typing import Any

import openai
import pytest

from service.wire.stream_rules import check_stream
from tests.integration.background.turns import LEASE_S, plain
from tests.processes import client_of, start_gateway, start_service


@pytest.mark.parametrize("model", ["endless", "thinks-endlessly"])
def test_cancelling_ends_it_for_everyone(client, elsewhere, model):
    response = client.responses.create(model=model, input="Hi", background=True)
    seen: list[Any] = []
    for event in client.responses.retrieve(response.id, stream=True):
        seen.append(event)
        if event.type == "response.output_text.delta":
            # By another service than the one that makes it.
            cancelled = elsewhere.responses.cancel(response.id)
            assert cancelled.status == "cancelled"
            break
    seen += client.responses.retrieve(response.id, stream=True, starting_after=seen[-1].sequence_number)
    events = plain(seen)
    assert check_stream(events) == []
    assert events[-1]["type"] == "response.incomplete"
    assert events[-1]["response"]["status"] == "cancelled"
    # The items that were done are kept, and nothing comes behind the end.
    kinds = ["reasoning"] if model == "thinks-endlessly" else []
    assert [item.type for item in cancelled.output] == kinds
    for other in (client, elsewhere):
        assert other.responses.cancel(response.id) == cancelled
        assert other.responses.retrieve(response.id) == cancelled
        assert plain(other.responses.retrieve(response.id, stream=True)) == events


def test_a_follower_beside_the_producer_is_told_of_a_cancel_from_elsewhere(client, elsewhere):
    """Of a response that says nothing."""
    response = client.responses.create(model="thinks-endlessly", input="Hi", background=True)
    stream = client.responses.retrieve(response.id, stream=True)
    while next(stream).type != "response.output_text.delta":
        pass
    began_at = time.monotonic()
    elsewhere.responses.cancel(response.id)
    assert list(stream)[-1].response.status == "cancelled"
    # Its producer finds out when it renews its lease; not only after the 15 s of a silence.
    assert time.monotonic() - began_at < 3 * LEASE_S


def test_cancelled_frees_its_slot(client):
    """More than there are slots and places to wait."""
    for _ in range(150):
        response = client.responses.create(model="endless", input="Hi", background=True)
        client.responses.cancel(response.id)
    assert client.responses.create(model="short", input="Hi").status == "completed"


def test_one_that_has_ended_stays_as_it_is(client):
    response = client.responses.create(model="short", input="Hi", background=True)
    list(client.responses.retrieve(response.id, stream=True))
    assert client.responses.cancel(response.id).status == "completed"


def test_a_failure_is_kept(client):
    response = client.responses.create(model="fails", input="Hi", background=True)
    events = plain(client.responses.retrieve(response.id, stream=True))
    assert events[-1]["type"] == "response.failed"
    assert client.responses.retrieve(response.id).status == "failed"


def test_what_is_not_in_the_background_cannot_be_cancelled_or_resumed(client):
    response = client.responses.create(model="short", input="Hi")
    with pytest.raises(openai.BadRequestError):
        client.responses.cancel(response.id)
    with pytest.raises(openai.BadRequestError):
        client.responses.retrieve(response.id, stream=True)
    with pytest.raises(openai.BadRequestError) as caught:
        client.responses.create(model="short", input="Hi", background=True, store=False)
    assert caught.value.param == "store"


def test_what_is_too_large_ends_with_the_items_that_fit(flags):
    """Its readers have a terminal event, and it can be gone on with."""
    small = [*flags, "--max-stored-bytes", "4000"]
    with (
        start_service(*small) as service,
        start_gateway(service.address) as gateway,
        client_of(gateway) as client,
    ):
        stream = client.responses.create(model="thinks-and-talks", input="Hi", background=True, stream=True)
        events = plain(stream)
        assert check_stream(events) == []
        failed = events[-1]["response"]
        assert (failed["status"], [item["type"] for item in failed["output"]]) == ("failed", ["reasoning"])
        assert "4000 bytes" in failed["error"]["message"]
        kept = client.responses.retrieve(failed["id"])
        assert kept.model_dump(exclude_unset=True) == failed
        assert client.responses.cancel(failed["id"]).status == "failed"
        # Where somebody waits for it, it is answered, and not kept.
        answered = client.responses.create(model="thinks-and-talks", input="Hi")
        assert (answered.status, answered.store) == ("completed", False)


def test_too_many_are_refused_before_they_are_queued(flags, tmp_path):
    few = [*flags, "--slots", "1", "--max-queued-requests", "1"]
    with (
        start_service(*few) as service,
        start_gateway(service.address) as gateway,
        client_of(gateway) as client,
    ):
        running = [client.responses.create(model="endless", input="Hi", background=True) for _ in range(2)]
        with pytest.raises(openai.RateLimitError):
            client.responses.create(model="endless", input="Hi", background=True)
        for response in running:
            client.responses.cancel(response.id)


@pytest.mark.parametrize("model", ["endless", "thinks-endlessly"])
def test_deleting_ends_it_for_everyone(client, elsewhere, model):
    """Each reader gets one terminal event, with the items that it has seen done."""
    response = client.responses.create(model=model, input="Hi", background=True)
    streams = [reader.responses.retrieve(response.id, stream=True) for reader in (client, elsewhere)]
    seen = [[next(stream)] for stream in streams]
    for events, stream in zip(seen, streams, strict=True):
        while events[-1].type != "response.output_text.delta":
            events.append(next(stream))
    assert client.responses.delete(response.id) is None
    for events, stream in zip(seen, streams, strict=True):
        plain_events = plain([*events, *stream])
        assert check_stream(plain_events) == []
        assert plain_events[-1]["type"] == "response.incomplete"
        assert plain_events[-1]["response"]["status"] == "cancelled"
        kinds = ["reasoning"] if model == "thinks-endlessly" else []
        assert [item["type"] for item in plain_events[-1]["response"]["output"]] == kinds
    for reader in (client, elsewhere):
        with pytest.raises(openai.NotFoundError):
            reader.responses.retrieve(response.id)
        with pytest.raises(openai.NotFoundError):
            reader.responses.retrieve(response.id, stream=True)
