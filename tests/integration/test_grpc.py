"""The typed face, in a real process: streams, errors, cancelling, limits, start and stop."""

import signal
import subprocess
import sys
import threading
import time
from typing import Any

import grpc
import orjson
import pytest
from google.rpc import error_details_pb2
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc
from grpc_status import rpc_status
from openresponses.v1.content_pb2 import InputContent
from openresponses.v1.conversation_pb2 import CreateConversationRequest, CreateItemsRequest
from openresponses.v1.conversation_pb2_grpc import ConversationsServiceStub
from openresponses.v1.event_pb2 import ResponseStreamEvent
from openresponses.v1.item_pb2 import ROLE_USER, Input, InputItem, InputItemList, InputMessage
from openresponses.v1.response_pb2 import Response
from openresponses.v1.service_pb2 import CreateResponseRequest, ListModelsRequest, StreamOptions
from openresponses.v1.service_pb2_grpc import ResponsesServiceStub
from openresponses.v1.status_pb2 import RESPONSE_STATUS_COMPLETED, RESPONSE_STATUS_INCOMPLETE
from openresponses.v1.tool_pb2 import FunctionTool, Tool

from service.api.responses import MAX_INPUT_ITEMS
from service.wire.openai_json import encode
from service.wire.stream_rules import check_stream
from tests.processes import Running, start_service
from tests.scripts import REASONING_AND_TEXT, TURNS, token_count, write_script

TIMEOUT_S = 20

WITHOUT_STATUS = InputItem(message=InputMessage(role=ROLE_USER, content=InputContent(text="x"), status=9))


def request(model: str, **fields: Any) -> CreateResponseRequest:
    return CreateResponseRequest(model=model, input=Input(text="Hi"), **fields)


def stream(channel: grpc.Channel, model: str, **fields: Any) -> list[ResponseStreamEvent]:
    call = ResponsesServiceStub(channel).StreamResponse(request(model, **fields), timeout=TIMEOUT_S)
    return list(call)


def problems(events: list[ResponseStreamEvent]) -> list[str]:
    return check_stream([orjson.loads(encode(event)) for event in events])


def final_response(events: list[ResponseStreamEvent]) -> Response:
    last = events[-1]
    return getattr(last, last.WhichOneof("event")).response


def comparable(response: Response) -> dict[str, Any]:
    """A response without its unique id and its times."""
    unique = response.id.removeprefix("resp_")
    document = orjson.loads(encode(response).replace(unique.encode(), b"UNIQUE"))
    return {
        key: value for key, value in document.items() if key not in ("created_at", "completed_at", "model")
    }


@pytest.mark.parametrize("model", ["hello", "calls", "fails", "fails-at-once", "slow"])
def test_a_stream_keeps_the_rules(channel, model):
    assert problems(stream(channel, model)) == []


def test_the_response_is_the_same_whatever_the_chunks_and_the_interval(channel):
    options = [
        None,
        *(StreamOptions(stream_interval=n, stream_interval_ms=10_000) for n in (1, 2, 3, 10, 1000)),
    ]
    responses = [
        comparable(final_response(stream(channel, model, stream_options=option)))
        for model in ("hello", "hello-7", "hello-all")
        for option in options
    ]
    whole = ResponsesServiceStub(channel).CreateResponse(request("hello"), timeout=TIMEOUT_S)
    assert all(response == comparable(whole) for response in responses)
    assert whole.status == RESPONSE_STATUS_COMPLETED
    assert whole.usage.output_tokens == token_count(REASONING_AND_TEXT)
    assert [item.WhichOneof("item") for item in whole.output] == ["reasoning", "message"]
    assert whole.output[1].message.content[0].output_text.text == "Hello, wörld! 👋 How are you?"


def test_a_request_chooses_its_own_interval(channel):
    def deltas(interval: int) -> int:
        options = StreamOptions(stream_interval=interval, stream_interval_ms=10_000)
        return sum(e.HasField("output_text_delta") for e in stream(channel, "slow", stream_options=options))

    assert deltas(1) == 51
    assert deltas(10) == 6


def test_items_follow_one_another_with_unique_ids(channel):
    response = final_response(stream(channel, "calls"))
    kinds = [item.WhichOneof("item") for item in response.output]
    assert kinds == ["reasoning", "message", "function_call", "function_call"]
    calls = [item.function_call for item in response.output[2:]]
    assert [call.arguments for call in calls] == ['{"city": "Zürich"}', '{"city": "Oslo"}']
    assert len({call.call_id for call in calls} | {call.id for call in calls}) == 4
    assert response.output[1].message.phase == "commentary"


def test_without_parallel_calls_there_is_one(channel):
    response = final_response(stream(channel, "calls", parallel_tool_calls=False))
    assert sum(item.HasField("function_call") for item in response.output) == 1
    assert response.status == RESPONSE_STATUS_COMPLETED


@pytest.mark.parametrize("limit", range(1, token_count(REASONING_AND_TEXT) + 1))
def test_max_output_tokens_wherever_the_cut_falls(channel, limit):
    events = stream(channel, "hello", max_output_tokens=limit)
    assert problems(events) == []
    response = final_response(events)
    assert response.usage.output_tokens == limit
    if limit < token_count(REASONING_AND_TEXT):
        assert response.status == RESPONSE_STATUS_INCOMPLETE
        assert response.incomplete_details.reason == "max_output_tokens"
    else:
        assert response.status == RESPONSE_STATUS_COMPLETED


def test_an_engine_failure_after_the_first_event_is_an_event(channel):
    events = stream(channel, "fails")
    assert events[-1].HasField("failed")
    assert events[-1].failed.response.error.code == "server_error"


def test_an_engine_failure_without_a_stream_is_a_status(channel):
    with pytest.raises(grpc.RpcError) as caught:
        ResponsesServiceStub(channel).CreateResponse(request("fails"), timeout=TIMEOUT_S)
    assert caught.value.code() is grpc.StatusCode.INTERNAL


BAD_REQUESTS = [
    (request("nobody"), grpc.StatusCode.NOT_FOUND, "model_not_found", "model"),
    (request(""), grpc.StatusCode.INVALID_ARGUMENT, "invalid_value", "model"),
    (CreateResponseRequest(model="hello"), grpc.StatusCode.INVALID_ARGUMENT, "invalid_value", "input"),
    (request("hello", temperature=3), grpc.StatusCode.INVALID_ARGUMENT, "invalid_value", "temperature"),
    (
        request("hello", temperature=float("nan")),
        grpc.StatusCode.INVALID_ARGUMENT,
        "invalid_value",
        "temperature",
    ),
    (
        # What has no JSON could be kept, and never be shown.
        request("hello", truncation=7),
        grpc.StatusCode.INVALID_ARGUMENT,
        "unknown_value",
        "truncation",
    ),
    (
        request("hello", max_output_tokens=0),
        grpc.StatusCode.INVALID_ARGUMENT,
        "invalid_value",
        "max_output_tokens",
    ),
    (
        request("hello", stream_options=StreamOptions(stream_interval=0)),
        grpc.StatusCode.INVALID_ARGUMENT,
        "invalid_value",
        "stream_options.stream_interval",
    ),
    (
        request("hello", background=True, store=False),
        grpc.StatusCode.INVALID_ARGUMENT,
        "invalid_value",
        "store",
    ),
]


@pytest.mark.parametrize("method", ["CreateResponse", "CountInputTokens", "CompactResponse"])
def test_what_has_no_json_is_refused_by_every_method(channel, method):
    bad = request("hello", tools=[Tool(function=FunctionTool(name="f", parameters="not json"))])
    with pytest.raises(grpc.RpcError, match="must be JSON text") as caught:
        getattr(ResponsesServiceStub(channel), method)(bad, timeout=TIMEOUT_S)
    assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT


@pytest.mark.parametrize(
    ("method", "bad"),
    [
        ("CreateConversation", CreateConversationRequest(items=[InputItem()])),
        ("CreateItems", CreateItemsRequest(conversation_id="conv_1", items=[WITHOUT_STATUS])),
    ],
)
def test_items_of_conversations_that_have_no_json_are_refused(channel, method, bad):
    with pytest.raises(grpc.RpcError, match=r"items\[0\]") as caught:
        getattr(ConversationsServiceStub(channel), method)(bad, timeout=TIMEOUT_S)
    assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT


def test_large_messages_are_checked_for_json_and_items_are_counted(channel):
    """In a thread."""
    create = ResponsesServiceStub(channel).CreateResponse
    items = [
        InputItem(message=InputMessage(role=ROLE_USER, content=InputContent(text="x" * 9)))
    ] * MAX_INPUT_ITEMS
    bad = CreateResponseRequest(model="hello", input=Input(items=InputItemList(items=[*items, InputItem()])))
    with pytest.raises(grpc.RpcError, match=rf"input\[{MAX_INPUT_ITEMS}\] is empty"):
        create(bad, timeout=TIMEOUT_S)
    bad.input.items.items[-1].CopyFrom(items[0])
    with pytest.raises(grpc.RpcError, match=f"input may hold {MAX_INPUT_ITEMS} items at most"):
        create(bad, timeout=TIMEOUT_S)
    del bad.input.items.items[-1]
    assert create(bad, timeout=TIMEOUT_S).output


@pytest.mark.parametrize(("bad", "code", "reason", "param"), BAD_REQUESTS)
def test_bad_requests_are_statuses_that_name_the_field(channel, bad, code, reason, param):
    with pytest.raises(grpc.RpcError) as caught:
        next(ResponsesServiceStub(channel).StreamResponse(bad, timeout=TIMEOUT_S))
    assert caught.value.code() is code
    status = rpc_status.from_call(caught.value)
    info = error_details_pb2.ErrorInfo()
    assert status.details[0].Unpack(info)
    assert (info.reason, info.metadata["param"]) == (reason, param)


def test_models_are_listed(channel):
    models = ResponsesServiceStub(channel).ListModels(ListModelsRequest(), timeout=TIMEOUT_S)
    assert [model.id for model in models.data] == list(TURNS)


def test_the_first_event_comes_before_the_first_token(channel):
    call = ResponsesServiceStub(channel).StreamResponse(request("hangs-at-once"), timeout=TIMEOUT_S)
    assert next(call).type == "response.created"
    assert next(call).type == "response.in_progress"
    call.cancel()


def test_the_first_token_comes_before_the_second(channel):
    options = StreamOptions(stream_interval=1000, stream_interval_ms=10_000)
    call = ResponsesServiceStub(channel).StreamResponse(
        request("hangs", stream_options=options), timeout=TIMEOUT_S
    )
    assert next(event for event in call if event.HasField("output_item_added"))
    call.cancel()


@pytest.fixture
def one_slot(tmp_path):
    flags = ("--engine", "scripted", "--script", write_script(tmp_path), "--slots", "1")
    with (
        start_service(*flags, "--max-queued-requests", "1") as running,
        grpc.insecure_channel(running.address) as channel,
    ):
        yield channel


def in_progress(channel: grpc.Channel, model: str) -> Any:
    call = ResponsesServiceStub(channel).StreamResponse(request(model), timeout=TIMEOUT_S)
    assert next(call).type == "response.created"
    return call


@pytest.mark.parametrize("model", ["endless", "hangs", "hangs-at-once"])
def test_cancelling_frees_the_slot(one_slot, model):
    for _ in range(5):
        call = in_progress(one_slot, model)
        call.cancel()
    assert final_response(stream(one_slot, "hello")).status == RESPONSE_STATUS_COMPLETED


def test_a_deadline_frees_the_slot(one_slot):
    call = ResponsesServiceStub(one_slot).StreamResponse(request("hangs"), timeout=0.3)
    with pytest.raises(grpc.RpcError) as caught:
        list(call)
    assert caught.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED
    assert final_response(stream(one_slot, "hello")).status == RESPONSE_STATUS_COMPLETED


def test_too_many_requests_are_refused_with_a_delay(one_slot):
    calls = [in_progress(one_slot, "hangs"), in_progress(one_slot, "hangs")]
    with pytest.raises(grpc.RpcError) as caught:
        stream(one_slot, "hello")
    assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    details = rpc_status.from_call(caught.value).details
    retry = error_details_pb2.RetryInfo()
    assert details[1].Unpack(retry)
    assert retry.retry_delay.seconds >= 1
    for call in calls:
        call.cancel()
    assert final_response(stream(one_slot, "hello")).status == RESPONSE_STATUS_COMPLETED


def test_health_and_reflection(channel):
    health = health_pb2_grpc.HealthStub(channel)
    for name in ("", "openresponses.v1.ResponsesService"):
        answer = health.Check(health_pb2.HealthCheckRequest(service=name), timeout=TIMEOUT_S)
        assert answer.status == health_pb2.HealthCheckResponse.SERVING
    asked = iter([reflection_pb2.ServerReflectionRequest(list_services="")])
    answer = next(
        reflection_pb2_grpc.ServerReflectionStub(channel).ServerReflectionInfo(asked, timeout=TIMEOUT_S)
    )
    names = {service.name for service in answer.list_services_response.service}
    assert {"openresponses.v1.ResponsesService", "openresponses.v1.OpenAIHttpService"} <= names


def test_sigterm_finishes_running_streams_and_refuses_new_calls(tmp_path):
    with (
        start_service("--engine", "scripted", "--script", write_script(tmp_path)) as running,
        grpc.insecure_channel(running.address) as channel,
    ):
        call = in_progress(channel, "slow")
        running.process.send_signal(signal.SIGTERM)
        refused = threading.Event()
        codes: list[grpc.StatusCode] = []

        def knock() -> None:
            while not refused.is_set():
                with grpc.insecure_channel(running.address) as other:
                    try:
                        stream(other, "hello")
                    except grpc.RpcError as error:
                        codes.append(error.code())
                        refused.set()

        knocking = threading.Thread(target=knock)
        knocking.start()
        assert list(call)[-1].HasField("completed")
        assert refused.wait(TIMEOUT_S)
        knocking.join()
        assert codes == [grpc.StatusCode.UNAVAILABLE]
        assert running.process.wait(TIMEOUT_S) == 0


def test_sigterm_ends_streams_that_outlast_the_grace_period(tmp_path):
    flags = ("--engine", "scripted", "--script", write_script(tmp_path), "--grace-s", "0.5")
    with start_service(*flags) as running, grpc.insecure_channel(running.address) as channel:
        call = in_progress(channel, "hangs")
        began = time.monotonic()
        running.process.send_signal(signal.SIGTERM)
        with pytest.raises(grpc.RpcError):
            list(call)
        assert running.process.wait(TIMEOUT_S) == 0
        assert time.monotonic() - began < TIMEOUT_S


BAD_STARTS = [
    (["--engine", "scripted"], "--script"),
    (["--engine", "scripted", "--script", "/nowhere.json"], "/nowhere.json"),
    (["--engine", "magic"], "--engine"),
    (["--listen", "nonsense"], "--listen"),
    (["--stream-interval", "0"], "--stream-interval"),
]


@pytest.mark.parametrize(("flags", "named"), BAD_STARTS)
def test_what_it_cannot_start_with_is_one_clear_line(flags, named):
    done = subprocess.run(
        [sys.executable, "-m", "service", *flags],
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 1
    assert named in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""


def test_an_old_protobuf_is_one_clear_line():
    """As in containers that pin one older than gen/ was made with."""
    old = (
        "import sys; from google.protobuf import runtime_version; runtime_version.MAJOR = 5; "
        "sys.argv = ['service']; from service.__main__ import main; sys.exit(main())"
    )
    done = subprocess.run(
        [sys.executable, "-c", old], capture_output=True, text=True, timeout=TIMEOUT_S, check=False
    )
    assert done.returncode == 1
    assert "make proto" in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


def test_a_taken_port_is_one_clear_line(service: Running, tmp_path):
    flags = ["--engine", "scripted", "--script", str(write_script(tmp_path)), "--listen", service.address]
    done = subprocess.run(
        [sys.executable, "-m", "service", *flags],
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 1
    assert service.address in done.stderr
    assert "Traceback" not in done.stderr


def test_settings_come_from_the_environment_too(tmp_path, monkeypatch):
    monkeypatch.setenv("OPENRESPONSES_ENGINE", "scripted")
    monkeypatch.setenv("OPENRESPONSES_SCRIPT", str(write_script(tmp_path)))
    with start_service() as running, grpc.insecure_channel(running.address) as channel:
        assert stream(channel, "hello")
