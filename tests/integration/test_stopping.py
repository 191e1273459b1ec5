"""What outlasts the time that a server gives its responses when it stops: told to clients, and kept, as failed."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import grpc
import httpx
import openai
import pytest
from openresponses.v1.service_pb2_grpc import ResponsesServiceStub
from openresponses.v1.stored_pb2 import GetResponseRequest, ResumeResponseRequest

from service.wire.stream_rules import check_stream
from tests.integration.gateway import TIMEOUT_S, assert_openai_error, body, events_of
from tests.integration.grpc_calls import final_response, in_progress, request
from tests.processes import Running, client_of, start_gateway, start_service
from tests.scripts import write_script

HANGS_AFTER = 10


@pytest.fixture
def flags(tmp_path: Path) -> list[str | Path]:
    """Of services that share a database."""
    return [
        *("--engine", "scripted", "--script", write_script(tmp_path)),
        *("--database", f"sqlite:///{tmp_path}/shared.db"),
    ]


@pytest.fixture
def service(flags: list[str | Path]) -> Iterator[Running]:
    """One that is stopped in the test."""
    with start_service(*flags, "--grace-s", "0.5", "--stream-interval", "1") as running:
        yield running


@pytest.fixture
def gateway(service: Running) -> Iterator[Running]:
    with start_gateway(service.address) as running:
        yield running


@pytest.fixture
def replica(flags: list[str | Path]) -> Iterator[Running]:
    """One that is not."""
    with start_service(*flags, "--grace-s", "0") as running:
        yield running


def test_a_stream_ends_as_failed_and_is_kept_so(service, gateway, replica):
    with (
        grpc.insecure_channel(service.address) as channel,
        httpx.Client(base_url=f"http://{gateway.address}", timeout=TIMEOUT_S) as http,
        http.stream("POST", "/v1/responses", json=body("hangs", stream=True)) as over_http,
        ThreadPoolExecutor(1) as pool,
    ):
        typed = in_progress(channel, "hangs")
        chunks = over_http.iter_text()
        text = next(chunks)
        reading = pool.submit(lambda: "".join(chunks))
        assert service.stop() == 0
        response = final_response(list(typed))
        events = events_of(text + reading.result(TIMEOUT_S))
    assert check_stream(events) == []
    assert events[-1]["type"] == "response.failed"
    ended = events[-1]["response"]
    assert "stopped" in ended["error"]["message"]
    assert "stopped" in response.error.message
    assert ended["usage"]["output_tokens"] == response.usage.output_tokens == HANGS_AFTER
    with grpc.insecure_channel(replica.address) as channel:
        get = ResponsesServiceStub(channel).GetResponse
        assert get(GetResponseRequest(response_id=response.id), timeout=TIMEOUT_S) == response
        kept = get(GetResponseRequest(response_id=ended["id"]), timeout=TIMEOUT_S)
    assert kept.error.message == ended["error"]["message"]
    assert kept.usage.output_tokens == HANGS_AFTER


def test_who_waits_for_the_whole_response_may_try_again_elsewhere(service, gateway):
    """A status that clients retry at."""
    with (
        grpc.insecure_channel(service.address) as channel,
        httpx.Client(base_url=f"http://{gateway.address}", timeout=TIMEOUT_S) as http,
        ThreadPoolExecutor(1) as pool,
    ):
        waiting = ResponsesServiceStub(channel).CreateResponse.future(request("hangs"), timeout=TIMEOUT_S)
        over_http = pool.submit(http.post, "/v1/responses", json=body("hangs"))
        # Both run, once one that has come later does.
        in_progress(channel, "hangs")
        assert service.stop() == 0
        assert waiting.code() is grpc.StatusCode.UNAVAILABLE
        assert "stopped" in waiting.details()
        assert_openai_error(over_http.result(TIMEOUT_S), 503, "server_unavailable")


def test_one_in_the_background_ends_in_the_same_way(service, gateway, replica):
    with start_gateway(replica.address) as elsewhere, client_of(gateway) as client:
        stream = client.responses.create(model="hangs", input="Hi", background=True, stream=True)
        events = [next(stream)]
        while events[-1].type != "response.output_text.delta":
            events.append(next(stream))
        with ThreadPoolExecutor(1) as pool:
            reading = pool.submit(list, stream)
            assert service.stop() == 0
            events += reading.result(TIMEOUT_S)
        plain = [event.model_dump(exclude_unset=True) for event in events]
        assert check_stream(plain) == []
        ended = events[-1].response
        assert events[-1].type == "response.failed"
        assert "stopped" in ended.error.message
        assert ended.usage.output_tokens == HANGS_AFTER
        with client_of(elsewhere) as other:
            assert other.responses.retrieve(ended.id) == ended


def test_readers_of_what_goes_on_elsewhere_are_told_that_it_breaks_off(service, gateway, replica):
    with (
        start_gateway(replica.address) as elsewhere,
        client_of(elsewhere) as other,
        client_of(gateway) as client,
        grpc.insecure_channel(service.address) as channel,
    ):
        response_id = other.responses.create(model="hangs", input="Hi", background=True).id
        typed = ResponsesServiceStub(channel).ResumeResponse(
            ResumeResponseRequest(response_id=response_id),
            metadata=[("authorization", "Bearer alice")],
            timeout=TIMEOUT_S,
        )
        next(typed)
        stream = client.responses.retrieve(response_id, stream=True)
        next(stream)
        with ThreadPoolExecutor(1) as pool:
            reading = pool.submit(lambda: [list(stream)])
            assert service.stop() == 0
            with pytest.raises(openai.APIError, match="read on from another one"):
                reading.result(TIMEOUT_S)
        with pytest.raises(grpc.RpcError) as caught:
            list(typed)
        assert caught.value.code() is grpc.StatusCode.UNAVAILABLE
        assert other.responses.retrieve(response_id).status == "in_progress"
