"""The native way of the llama.cpp engine, token ids in and out, as far as a model that is not gpt-oss shows it."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from service.dialect.harmony.vocabulary import RETURN, START, encode, token_bytes
from service.engine.base import TokenLogprob
from service.engine.embedded import bundled_model
from service.engine.llama_runtime import LlamaRuntime, Sampling, TextToken
from service.engine.native_turn import whole_token_ids

pytestmark = pytest.mark.asyncio(loop_scope="module")

# SmolLM2's: <|im_start|>user\nWhat is the capital of France?<|im_end|>\n<|im_start|>assistant\n
PROMPT = [1, 4093, 198, 1780, 314, 260, 3575, 282, 4649, 47, 2, 198, 1, 520, 9531, 198]
END = 2
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
    assert tokens[-1].entry.token_id == END
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
    assert await runtime.control_token("<|im_end|>") == END
    # Not Harmony's: this model's turns are translated.
    assert await runtime.control_token("<|start|>") != START


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


async def test_control_tokens_stay_what_they_are():
    assert whole_token_ids(TextToken(TokenLogprob(RETURN, 0.0), b""), token_bytes()) == [RETURN]
