"""Calls of the typed face, and what their streams of events come to."""

from typing import Any

import grpc
from openresponses.v1.event_pb2 import ResponseStreamEvent
from openresponses.v1.item_pb2 import Input
from openresponses.v1.response_pb2 import Response
from openresponses.v1.service_pb2 import CreateResponseRequest
from openresponses.v1.service_pb2_grpc import ResponsesServiceStub

TIMEOUT_S = 20


def request(model: str, **fields: Any) -> CreateResponseRequest:
    return CreateResponseRequest(model=model, input=Input(text="Hi"), **fields)


def stream(channel: grpc.Channel, model: str, **fields: Any) -> list[ResponseStreamEvent]:
    call = ResponsesServiceStub(channel).StreamResponse(request(model, **fields), timeout=TIMEOUT_S)
    return list(call)


def final_response(events: list[ResponseStreamEvent]) -> Response:
    last = events[-1]
    return getattr(last, last.WhichOneof("event")).response


def in_progress(channel: grpc.Channel, model: str) -> Any:
    call = ResponsesServiceStub(channel).StreamResponse(request(model), timeout=TIMEOUT_S)
    assert next(call).type == "response.created"
    return call
