"""Every vector, at every chunk size, through the sans-IO core, through gRPC and through Envoy."""

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import grpc
import httpx
import pytest
from openresponses.v1.service_pb2 import CreateResponseRequest
from openresponses.v1.service_pb2_grpc import ResponsesServiceStub

from service.dialect.harmony.dialect import HarmonyDialect
from service.wire.openai_json import decode, encode
from service.wire.stream_rules import check_stream
from tests.conformance.vectors import (
    CHUNK_SIZES,
    Vector,
    in_short,
    load_vectors,
    problems_of,
    request_of,
    tokens_of,
    turn_of,
)
from tests.processes import ROOT, Running, start_gateway, start_service
from tests.scripts import write_script
from tests.streams import Events, in_chunks, play, with_joined_deltas

VECTORS = load_vectors()
DIALECT = HarmonyDialect()
TIMEOUT_S = 20

every_vector = pytest.mark.parametrize("name", VECTORS)


def test_there_are_enough_and_they_are_well_formed():
    assert len(VECTORS) >= 120
    assert {name: problems for name, vector in VECTORS.items() if (problems := problems_of(vector))} == {}
    assert all(vector["why"] for vector in VECTORS.values())


def check(vector: Vector, play: Callable[[int], Events]) -> None:
    """Play it at every chunk size: the expected response, and but for the grouping of deltas the same stream."""
    reference = None
    for size in CHUNK_SIZES:
        events = play(size)
        assert check_stream(events) == []
        response = events[-1]["response"]
        assert (in_short(response["output"]), response["status"]) == (vector["output"], vector["status"])
        assert (response["error"] is None) == (vector["status"] != "failed")
        stream = comparable(events)
        reference = reference or stream
        assert stream == reference


def comparable(events: Events) -> Events:
    """A stream without what is its own: ids, times, the model's name, the grouping of deltas."""
    unique = events[0]["response"]["id"].removeprefix("resp_")
    text = json.dumps(with_joined_deltas(events)).replace(unique, "UNIQUE")
    return json.loads(re.sub(r'"(created_at|completed_at|model)": ("[^"]*"|[\d.]+)', r'"\1": null', text))


# Through the core.


@every_vector
def test_core(name):
    vector = VECTORS[name]
    request = decode(CreateResponseRequest, json.dumps({"model": "m", **request_of(vector)}).encode())
    tokens = tokens_of(vector)
    end = vector["finish_reason"]
    check(
        vector,
        lambda size: play(DIALECT.splitter(request), in_chunks(tokens, size), end=end, request=request),
    )


# Through real processes: one service that has every vector at every chunk size as a model.


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    turns = {
        f"{name}.{size}": turn_of(vector, size) for name, vector in VECTORS.items() for size in CHUNK_SIZES
    }
    script = write_script(tmp_path_factory.mktemp("vectors"), turns)
    # So that what the engine gives as one chunk is one flush.
    with start_service("--engine", "scripted", "--script", script, "--stream-interval", "1") as running:
        yield running


@pytest.fixture(scope="module")
def stub(service: Running) -> Iterator[ResponsesServiceStub]:
    with grpc.insecure_channel(service.address) as channel:
        yield ResponsesServiceStub(channel)


@pytest.fixture(scope="module")
def http(service: Running) -> Iterator[httpx.Client]:
    with (
        start_gateway(service.address) as gateway,
        httpx.Client(base_url=f"http://{gateway.address}", timeout=TIMEOUT_S) as client,
    ):
        yield client


@every_vector
def test_grpc(name, stub):
    vector = VECTORS[name]

    def play(size: int) -> Events:
        document = {"model": f"{name}.{size}", **request_of(vector)}
        request = decode(CreateResponseRequest, json.dumps(document).encode())
        return [json.loads(encode(event)) for event in stub.StreamResponse(request, timeout=TIMEOUT_S)]

    check(vector, play)


@every_vector
def test_envoy(name, http):
    vector = VECTORS[name]

    def play(size: int) -> Events:
        document = {"model": f"{name}.{size}", "stream": True, **request_of(vector)}
        answer = http.post("/v1/responses", json=document)
        frames = answer.content.removesuffix(b"\n\n").split(b"\n\n")
        return [json.loads(frame.partition(b"\ndata: ")[2]) for frame in frames]

    check(vector, play)


# The failures of other servers that concern this layer, by group; the numbers have gaps.
FAILURES = {
    "H": "1 2 3 4 5 6 8 10 11 12 13 14 15 16 18 19",
    "T": "1 2 3 5 6 7 9 10 11 14 15 16 17 18 19 20 21 22 23 24 25 26",
    "N": "1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 20",
    "U": "1 2 3 4 6",
    "E": "1 2 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 20 21 22 23 24 25 26",
    "S": "1 2 3 4 5 6 7 8 9 12 13 14 15 16 17 18 19 20",
    "A": "1 2 3 4 5 6 8 9 10 11 12",
    "P": "1 2 3 4 5 6 7 8 9 10 11",
    "G": "1 2 3 4 5 9 10",
}


def test_every_known_failure_has_its_test():
    """By a vector's `covers`, or by the test that `covered_elsewhere.json` names."""
    known = {f"{group}{int(number):02}" for group, numbers in FAILURES.items() for number in numbers.split()}
    by_vectors = {failure for vector in VECTORS.values() for failure in vector["covers"]}
    elsewhere = json.loads((Path(__file__).parent / "covered_elsewhere.json").read_text())
    assert by_vectors | elsewhere.keys() == known
    assert by_vectors.isdisjoint(elsewhere)
    for path, _, test in (name.partition("::") for name in elsewhere.values()):
        assert f"def {test}(" in (ROOT / path).read_text(), f"{path} has no {test}"
