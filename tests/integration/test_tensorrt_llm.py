"""The TensorRT-LLM engine against a stand-in for the package (`tests/stand_ins`); `tests/gpu` has the real one."""

import asyncio
import json
import sys
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.dialect.harmony.vocabulary import CALL, RETURN
from service.engine.base import FinishReason, FunctionSchema, GenerationRequest, Guidance
from service.engine.structural_tag import structural_tag
from service.engine.tensorrt_llm import TensorRTLLMEngine
from service.engine.tensorrt_settings import TensorRTSettings
from service.errors import EngineFailed, InvalidRequest, StartupError, Unavailable
from tests.engine_contract import MAX_QUEUED_REQUESTS, SLOTS, EngineContract, chunks_of, first_of, tokens_of
from tests.processes import ROOT, run_service

STAND_INS = ROOT / "tests" / "stand_ins"


@pytest.fixture(autouse=True)
def stand_in(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    monkeypatch.syspath_prepend(str(STAND_INS))
    import tensorrt_llm

    yield tensorrt_llm
    for name in [name for name in sys.modules if name.partition(".")[0] == "tensorrt_llm"]:
        del sys.modules[name]


def generation(first: int, **fields: Any) -> GenerationRequest:
    """A request whose output the stand-in finds by the prompt's first token."""
    return GenerationRequest("resp_1", "gpt-oss-20b", [first, 0], [RETURN, CALL], **fields)


def make_engine(**settings: Any) -> TensorRTLLMEngine:
    given = TensorRTSettings(max_batch_size=SLOTS, **settings)
    return TensorRTLLMEngine("openai/gpt-oss-20b", given, max_queued_requests=MAX_QUEUED_REQUESTS)


@pytest.fixture(params=[1, 4, 10])
def engine(request: pytest.FixtureRequest) -> TensorRTLLMEngine:
    return make_engine(stream_interval=request.param)


class TestContract(EngineContract):
    REQUEST = generation(1)
    ENDLESS = generation(2)


@pytest.mark.parametrize("interval", [1, 2, 4, 10, 1000])
async def test_chunks_are_copied_whole_whatever_the_interval(stand_in, interval):
    chunks = await chunks_of(make_engine(stream_interval=interval), generation(1))
    assert tokens_of(chunks) == stand_in.HELLO
    sizes = [len(chunk.token_ids) for chunk in chunks]
    assert sizes[0] == 1
    assert sum(sizes) == len(stand_in.HELLO)


async def test_a_call_keeps_its_stop_token(stand_in, monkeypatch):
    monkeypatch.setitem(stand_in.OUTPUTS, 1, [200005, 1, 200008, 2, CALL])
    chunks = await chunks_of(make_engine(), generation(1))
    assert tokens_of(chunks)[-1] == CALL
    assert chunks[-1].finish_reason is FinishReason.STOP


@pytest.mark.parametrize("kind", ["RAISES", "HAS_ERROR", "TIMES_OUT", "DIES"])
async def test_a_failure_comes_after_its_tokens_and_tells_no_internals(stand_in, kind):
    engine, seen = make_engine(stream_interval=1), []

    async def play() -> None:
        async with engine.generate(generation(getattr(stand_in, kind))) as chunks:
            async for chunk in chunks:
                seen.extend(chunk.token_ids)

    with pytest.raises(EngineFailed) as failed:
        await play()
    assert seen == stand_in.HELLO[: stand_in.FAULT_AT]
    assert "CUDA" not in failed.value.message


async def test_a_dead_engine_is_not_healthy(stand_in):
    engine = make_engine()
    await engine.health()
    with pytest.raises(EngineFailed):
        await chunks_of(engine, generation(stand_in.DIES))
    with pytest.raises(Unavailable):
        await engine.health()


async def test_health_of_a_release_that_cannot_tell(stand_in, monkeypatch):
    monkeypatch.delattr(stand_in.LLM, "_check_health")
    await make_engine().health()


async def test_after_its_end_it_is_unavailable():
    engine = make_engine()
    await engine.close()
    with pytest.raises(Unavailable):
        await first_of(engine, generation(1))


async def test_parameters_that_it_refuses_are_the_callers_fault():
    with pytest.raises(InvalidRequest, match="temperature"):
        await first_of(make_engine(), generation(1, temperature=-1))


async def test_an_input_that_it_refuses_is_too_long(stand_in, monkeypatch):
    def refuse(*_: object, **__: object) -> None:
        raise sys.modules["tensorrt_llm.executor"].RequestError("the prompt is longer than max_num_tokens")

    monkeypatch.setattr(stand_in.LLM, "generate_async", refuse)
    with pytest.raises(InvalidRequest) as refused:
        await first_of(make_engine(), generation(1))
    assert (refused.value.code, refused.value.param) == ("context_length_exceeded", "input")


async def test_leaving_aborts_what_was_never_read(stand_in, monkeypatch):
    made = []
    submit = stand_in.LLM.generate_async
    monkeypatch.setattr(
        stand_in.LLM, "generate_async", lambda *a, **k: made.append(submit(*a, **k)) or made[-1]
    )
    async with make_engine().generate(generation(2)):
        pass
    assert [result._aborted.is_set() for result in made] == [True]


@pytest.mark.parametrize("top", [0, 1, 3])
async def test_log_probabilities_come_one_a_token(stand_in, top):
    chunks = await chunks_of(make_engine(stream_interval=4), generation(1, top_logprobs=top))
    entries = [entry for chunk in chunks for entry in chunk.logprobs]
    assert [entry.token_id for entry in entries] == stand_in.HELLO
    assert {len(entry.top) for entry in entries} == {top}


async def test_cached_tokens_are_passed_on():
    chunks = await chunks_of(make_engine(), replace(generation(1), prompt_token_ids=[1] * 10))
    assert chunks[0].cached_tokens == 7


def sampling_of(engine: TensorRTLLMEngine, request: GenerationRequest) -> Any:
    return engine._sampling_params(request)


def test_sampling_parameters():
    sampling = sampling_of(make_engine(), generation(1, temperature=0.7, top_p=0.9, max_tokens=5))
    assert (sampling.temperature, sampling.top_p, sampling.max_tokens) == (0.7, 0.9, 5)
    assert (sampling.end_id, sampling.stop_token_ids) == (RETURN, [CALL])
    assert sampling.include_stop_str_in_output
    assert not sampling.detokenize
    greedy = sampling_of(make_engine(), generation(1, temperature=0))
    assert (greedy.temperature, greedy.top_p) == (None, None)
    assert greedy.max_tokens > 32


def test_guidance_begins_behind_a_header():
    guidance = Guidance(
        (FunctionSchema("f", '{"type":"object"}'), FunctionSchema("g", None)), call_required=True
    )
    tag = json.loads(structural_tag(guidance) or "")
    first, second = tag["format"]["tags"]
    assert first["begin"] == "<|channel|>commentary to=functions.f <|constrain|>json<|message|>"
    assert first["content"]["json_schema"] == {"type": "object"}
    assert second["content"]["json_schema"] == {"type": "object", "properties": {}}
    assert tag["format"]["at_least_one"]
    assert structural_tag(Guidance()) is None
    (spawn,) = json.loads(structural_tag(Guidance((FunctionSchema("n.f", None),))) or "")["format"]["tags"]
    assert spawn["begin"] == "<|channel|>commentary to=n.f <|constrain|>json<|message|>"
    # An answer is held to its schema, a thought to nothing.
    answer = json.loads(structural_tag(Guidance(answer_schema='{"type":"array"}')) or "")["format"]
    assert answer["triggers"] == ["<|channel|>final"]
    assert answer["tags"][0]["begin"] == "<|channel|>final<|message|>"
    assert answer["tags"][0]["content"]["json_schema"] == {"type": "array"}
    assert not answer["at_least_one"]
    # Where a call is wanted there is no answer.
    both = Guidance((FunctionSchema("f", None),), call_required=True, answer_schema='{"type":"array"}')
    assert len(json.loads(structural_tag(both) or "")["format"]["tags"]) == 1
    request = generation(1, guidance=guidance)
    assert sampling_of(make_engine(), request).guided_decoding is None
    guided = make_engine(guided_decoding_backend="xgrammar")
    assert guided.models()[0].guided
    assert json.loads(sampling_of(guided, request).guided_decoding.structural_tag) == tag


# Making the engine.


def test_settings_reach_the_engine(tmp_path):
    options = tmp_path / "options.yaml"
    options.write_text("enable_chunked_prefill: true\nmax_num_tokens: 99\n")
    engine = make_engine(tensor_parallel_size=2, kv_cache_reuse=False, kv_cache_dtype="fp8", options=options)
    arguments = engine._llm.kwargs
    assert arguments["tensor_parallel_size"] == 2
    assert arguments["enable_chunked_prefill"] is True
    assert arguments["max_num_tokens"] == 99
    assert "moe_expert_parallel_size" not in arguments
    cache = arguments["kv_cache_config"]
    assert (cache.enable_block_reuse, cache.dtype) == (False, "fp8")


@pytest.mark.parametrize(
    ("content", "fault"),
    [("no_such_argument: 1", "no_such_argument"), ("- 1", "mapping"), (": :", "cannot be read")],
)
def test_wrong_options_are_named(tmp_path, content, fault):
    options = tmp_path / "options.yaml"
    options.write_text(content)
    with pytest.raises(StartupError, match=fault):
        make_engine(options=options)


def test_the_served_name():
    assert make_engine().models()[0].id == "gpt-oss-20b"
    assert make_engine(served_model_name="m").models()[0].id == "m"


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        ([], "--engine tensorrt_llm needs --model"),
        (["--model", "openai/gpt-oss-20b"], "TensorRT-LLM is not installed"),
        (["--model", "m", "--trt.max-batch-size", "0"], "max-batch-size"),
    ],
)
def test_what_it_cannot_start_with_is_one_clear_line(flags, said):
    done = run_service("--engine", "tensorrt_llm", *flags)
    assert done.returncode == 1
    assert said in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


@given(st.integers(1, 40), st.integers(1, 40))
def test_a_limit_anywhere_at_any_interval(interval, limit):
    async def play() -> list[int]:
        chunks = await chunks_of(make_engine(stream_interval=interval), generation(1, max_tokens=limit))
        assert chunks[-1].finish_reason is not None
        return tokens_of(chunks)

    sys.path.insert(0, str(STAND_INS))
    try:
        assert len(asyncio.run(play())) == min(limit, 34)
    finally:
        sys.path.remove(str(STAND_INS))
