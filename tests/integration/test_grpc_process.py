"""The service as a process: what it says of itself, how it starts, and how it stops."""

import signal
import sys
import threading

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc
from openresponses.v1.service_pb2 import ListModelsRequest
from openresponses.v1.service_pb2_grpc import ResponsesServiceStub

from tests.integration.grpc_calls import TIMEOUT_S, in_progress, stream
from tests.processes import Running, run_service, run_to_end, start_service
from tests.scripts import TURNS, write_script


def test_models_are_listed(channel):
    models = ResponsesServiceStub(channel).ListModels(ListModelsRequest(), timeout=TIMEOUT_S)
    assert [model.id for model in models.data] == list(TURNS)


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


BAD_STARTS = [
    (["--engine", "scripted"], "--script"),
    (["--engine", "scripted", "--script", "/nowhere.json"], "/nowhere.json"),
    (["--engine", "magic"], "--engine"),
    (["--listen", "nonsense"], "--listen"),
    (["--stream-interval", "0"], "--stream-interval"),
    # A time that no database can hold.
    (["--store-ttl-s", "9" * 19], "--store-ttl-s"),
    (["--script", "/nowhere.json"], "--engine embedded reads no script: add --engine scripted."),
    (["--auto-min-interval", "9", "--auto-max-interval", "5"], "--auto-min-interval 9 is above"),
    (["--stream-intervall", "8"], "unrecognized arguments: --stream-intervall 8. See --help."),
    (["--slots"], "argument --slots: expected one argument. See --help."),
]


@pytest.mark.parametrize(("flags", "named"), BAD_STARTS)
def test_what_it_cannot_start_with_is_one_clear_line(flags, named):
    done = run_service(*flags)
    assert done.returncode == 1
    assert named in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    assert done.stdout == ""


def test_an_old_protobuf_is_one_clear_line():
    """As in containers that pin one older than gen/ was made with."""
    old = (
        "import sys; from google.protobuf import runtime_version; runtime_version.MAJOR = 5; "
        "sys.argv = ['service']; from service.__main__ import main; sys.exit(main())"
    )
    done = run_to_end(sys.executable, "-c", old)
    assert done.returncode == 1
    assert "make proto" in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


def test_a_taken_port_is_one_clear_line(service: Running, tmp_path):
    flags = ["--engine", "scripted", "--script", str(write_script(tmp_path)), "--listen", service.address]
    done = run_service(*flags)
    assert done.returncode == 1
    assert done.stderr == f"Cannot listen on {service.address}: Address already in use. See --listen.\n"


def test_a_mistyped_variable_is_told_and_others_are_left_alone(service: Running, tmp_path, monkeypatch):
    monkeypatch.setenv("OPENRESPONSES_API_KEY_FILE", "secret")
    monkeypatch.setenv("OPENRESPONSES_TRT_MAX_BATCH_SIZE", "8")
    monkeypatch.setenv("OPENRESPONSES_SERVICE_PORT", "50051")
    monkeypatch.setenv("OPENRESPONSES_PORT_50051_TCP_ADDR", "10.0.0.1")
    done = run_service(
        "--engine", "scripted", "--script", str(write_script(tmp_path)), "--listen", service.address
    )
    key_file, batch, _ = done.stderr.splitlines()
    assert "OPENRESPONSES_API_KEY_FILE, which is no setting: OPENRESPONSES_API_KEYS_FILE is one" in key_file
    assert "OPENRESPONSES_TRT__MAX_BATCH_SIZE is one" in batch
    assert "secret" not in done.stderr


def test_settings_come_from_the_environment_too(tmp_path, monkeypatch):
    monkeypatch.setenv("OPENRESPONSES_ENGINE", "scripted")
    monkeypatch.setenv("OPENRESPONSES_SCRIPT", str(write_script(tmp_path)))
    with start_service() as running, grpc.insecure_channel(running.address) as channel:
        assert stream(channel, "hello")
