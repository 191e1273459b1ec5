"""Slots for calls of the typed face: who cancels or runs out of time frees one, and too many are refused."""

import grpc
import pytest
from google.rpc import error_details_pb2
from grpc_status import rpc_status
from openresponses.v1.service_pb2_grpc import ResponsesServiceStub
from openresponses.v1.status_pb2 import RESPONSE_STATUS_COMPLETED

from tests.integration.grpc_calls import final_response, in_progress, request, stream
from tests.processes import start_service
from tests.scripts import write_script


@pytest.fixture
def one_slot(tmp_path):
    flags = ("--engine", "scripted", "--script", write_script(tmp_path), "--slots", "1")
    with (
        start_service(*flags, "--max-queued-requests", "1") as running,
        grpc.insecure_channel(running.address) as channel,
    ):
        yield channel


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
