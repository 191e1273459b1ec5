"""The native way of the llama.cpp engine: token ids in and out, with a model that has gpt-oss's vocabulary."""

from collections.abc import AsyncIterator
from dataclasses import replace
from itertools import pairwise

import grpc
import pytest
import pytest_asyncio
from openresponses.v1.item_pb2 import Input
from openresponses.v1.service_pb2 import CreateResponseRequest
from openresponses.v1.service_pb2_grpc import ResponsesServiceStub

from service.dialect.harmony.vocabulary import (
    CALL,
    CHANNEL,
    END,
    MESSAGE,
    RETURN,
    START,
    encode,
    token_bytes,
)
from service.engine.base import GenerationRequest, TokenLogprob
from service.engine.embedded import bundled_model
from service.engine.llama_cpp import LlamaCppEngine
from service.engine.llama_runtime import LlamaRuntime, Sampling, TextToken
from service.engine.native_turn import whole_token_ids
from tests.engine_contract import MAX_QUEUED_REQUESTS, PATIENCE_S, SLOTS, EngineContract, chunks_of, tokens_of
from tests.gguf_chain import write_chain
from tests.processes import start_service

pytestmark = pytest.mark.asyncio(loop_scope="module")

# SmolLM2's: <|im_start|>user\nWhat is the capital of France?<|im_end|>\n<|im_start|>assistant\n
PROMPT = [1, 4093, 198, 1780, 314, 260, 3575, 282, 4649, 47, 2, 198, 1, 520, 9531, 198]
IM_END = 2
GREEDY = Sampling(0, 1)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def runtime() -> AsyncIterator[LlamaRuntime]:
    runtime = LlamaRuntime(bundled_model(), slots=1, context_tokens=1024)
    yield runtime
    await runtime.close()


async def read(runtime: LlamaRuntime, *, max_tokens: int = 60, top: int = 0) -> tuple[list[TextToken], bool]:
    completion_of = runtime.complete(PROMPT, GREEDY, max_tokens=max_tokens, top_logprobs=top)
    async with completion_of as completion:
        tokens = [token async for token in completion.tokens()]
        return tokens, completion.truncated


async def test_tokens_come_with_their_bytes_and_the_end_token(runtime):
    tokens, truncated = await read(runtime)
    assert b"Paris" in b"".join(token.text for token in tokens)
    assert tokens[-1].entry.token_id == IM_END
    assert tokens[-1].text == b""
    assert not truncated


async def test_a_limit(runtime):
    tokens, truncated = await read(runtime, max_tokens=3)
    assert len(tokens) == 3
    assert truncated


async def test_alternatives(runtime):
    tokens, _ = await read(runtime, max_tokens=3, top=4)
    assert {len(token.entry.top) for token in tokens} == {4}
    assert all(token.entry.top[0] == (token.entry.token_id, token.entry.logprob) for token in tokens)


async def test_a_prompt_that_grows_is_not_read_again(runtime):
    await read(runtime, max_tokens=3)
    completion_of = runtime.complete([*PROMPT, 504], GREEDY, max_tokens=2, top_logprobs=0)
    async with completion_of as completion:
        _ = [token async for token in completion.tokens()]
        assert completion.cached_tokens >= len(PROMPT)


async def test_control_tokens_are_found_by_their_spelling(runtime):
    assert runtime.control_token("<|im_end|>") == IM_END
    # Not Harmony's: this model's turns are translated.
    assert runtime.control_token("<|start|>") != START


@pytest.mark.parametrize("text", ["hi", "🦓", "字", "a🎉"])
async def test_tokens_inside_a_character_are_found_again(text):
    """Only the last id of a character is told, and the bytes of all."""
    table = token_bytes()
    ids = encode(text)
    held, found = b"", list[int]()
    for token_id in ids:
        held += table[token_id]
        try:
            held.decode()
        except UnicodeDecodeError:
            continue
        found += whole_token_ids(TextToken(TokenLogprob(token_id, -1.0), held), table)
        held = b""
    assert b"".join(table[token_id] for token_id in found).decode() == text
    assert found[-1] == ids[-1]


(ASSISTANT,) = encode("assistant")
(USER,) = encode("user")
(WORD,) = encode(" word")
HELLO = [CHANNEL, *encode("final"), MESSAGE, *encode("Hello, my world 🦓 x"), RETURN]


def harmony_request(last: int) -> GenerationRequest:
    """The model looks at the last token only."""
    prompt = [START, USER, MESSAGE, *encode("Hi"), END, START, last]
    return GenerationRequest("resp_1", "chain", prompt, [RETURN, CALL], temperature=0)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def engine(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[LlamaCppEngine]:
    followers = {**dict(pairwise([ASSISTANT, *HELLO])), USER: WORD, WORD: WORD}
    path = write_chain(tmp_path_factory.mktemp("model") / "chain.gguf", followers)
    engine = LlamaCppEngine(path, "chain", slots=SLOTS, max_queued_requests=MAX_QUEUED_REQUESTS)
    yield engine
    await engine.close()


class TestContract(EngineContract):
    REQUEST = harmony_request(ASSISTANT)
    ENDLESS = harmony_request(USER)


async def test_a_model_that_speaks_harmony_is_not_translated(engine):
    chunks = await chunks_of(engine, harmony_request(ASSISTANT))
    assert tokens_of(chunks) == HELLO
    (model,) = engine.models()
    assert (model.logprobs, model.guided) == (True, False)


async def test_its_cached_tokens_are_told_however_it_ends(engine):
    for max_tokens in (None, 3):
        request = replace(harmony_request(ASSISTANT), max_tokens=max_tokens)
        await chunks_of(engine, request)
        again = await chunks_of(engine, request)
        assert {chunk.cached_tokens for chunk in again if chunk.token_ids} == {
            len(request.prompt_token_ids) - 1
        }


async def test_what_continues_a_response_reads_only_what_is_new(tmp_path):
    """The prompt grows by what was said, so that the engine has most of it in its cache."""
    path = write_chain(tmp_path / "chain.gguf", dict(pairwise([ASSISTANT, *HELLO])))
    with start_service("--model", path, "--slots", "1") as running:
        async with grpc.aio.insecure_channel(running.address) as channel:
            stub = ResponsesServiceStub(channel)
            request = CreateResponseRequest(
                model="chain", input=Input(text="Hi"), instructions="Be kind. " * 20
            )
            known = 0
            for _ in range(4):
                response = await stub.CreateResponse(request, timeout=PATIENCE_S)
                assert response.usage.input_tokens_details.cached_tokens >= known
                # All but where the model went on.
                known = response.usage.input_tokens - 2
                request.previous_response_id = response.id


async def test_its_log_probabilities_come_one_a_token(engine):
    chunks = await chunks_of(engine, replace(harmony_request(ASSISTANT), top_logprobs=2))
    entries = [entry for chunk in chunks for entry in chunk.logprobs]
    assert [entry.token_id for entry in entries] == HELLO
    assert all(len(entry.top) <= 2 for entry in entries)


async def test_control_tokens_stay_what_they_are():
    assert whole_token_ids(TextToken(TokenLogprob(RETURN, 0.0), b""), token_bytes()) == [RETURN]
