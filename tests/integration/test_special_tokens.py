"""What users write is never a special token of the model's: its prompt has those of its template, and no others."""

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import gguf
import pytest
import pytest_asyncio

from service.engine.base import FunctionSchema, Guidance
from service.engine.embedded import bundled_model
from service.engine.llama_cpp import LlamaCppEngine
from service.engine.llama_runtime import ChatMessage, LlamaRuntime
from tests.engine_contract import chunks_of
from tests.generation import generation
from tests.gguf_chain import write_family

pytestmark = pytest.mark.asyncio(loop_scope="module")

CONTROL, USER_DEFINED = gguf.TokenType.CONTROL, gguf.TokenType.USER_DEFINED
TURNS = (
    "{{ bos_token }}{% for m in messages %}{{ 'START' + m.role + '\n' + m.content + 'END' + '\n' }}{% endfor %}"
    "{{ 'STARTmodel\n' }}"
)
FAMILIES = {
    "gemma": {"<end_of_turn>": CONTROL, "<start_of_turn>": CONTROL, "<bos>": CONTROL, "<unused7>": CONTROL},
    "mistral": {"</s>": CONTROL, "[INST]": CONTROL, "[/INST]": CONTROL, "<s>": CONTROL},
    "another": {"<!end!>": CONTROL, "<!User!>": USER_DEFINED, "<!Assistant!>": CONTROL},
}
BUNDLED = ["<file_sep>", "<jupyter_start>", "<|im_end|>", "<|endoftext|>"]


def family_file(folder: Path, family: str) -> Path:
    end, start, *_ = FAMILIES[family]
    template = TURNS.replace("START", start).replace("END", end)
    return write_family(folder / f"{family}.gguf", FAMILIES[family], template)


class Seen(LlamaCppEngine):
    """The engine, and the prompts that it gives to its model."""

    def watch(self) -> list[str]:
        prompts: list[str] = []
        chat = self._runtime.chat

        def seeing(messages, *args, **kwargs):
            prompts.append(messages)
            return chat(messages, *args, **kwargs)

        self._runtime.chat = seeing
        return prompts


async def special_count(runtime: LlamaRuntime, messages: list[ChatMessage], special: list[str]) -> int:
    """How many special tokens llama.cpp reads in the prompt of these messages."""
    ids = {runtime.control_token(text) for text in special}
    assert None not in ids
    document = {"messages": [{"role": m.role, "content": m.content} for m in messages]}
    prompt = (await runtime._http.post("/apply-template", json=document)).json()["prompt"]
    # As it reads prompts of chats.
    document = {"content": prompt, "parse_special": True}
    tokens = (await runtime._http.post("/tokenize", json=document)).json()["tokens"]
    return sum(token in ids for token in tokens)


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=["bundled", *FAMILIES])
async def engine(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[tuple[Seen, list[str]]]:
    if request.param == "bundled":
        path, special = bundled_model(), BUNDLED
    else:
        path = family_file(tmp_path_factory.mktemp("model"), request.param)
        special = list(FAMILIES[request.param])
    engine = Seen(path, "m", slots=1, max_queued_requests=0)
    yield engine, special
    await engine.close()


@pytest.mark.parametrize("called", [False, True], ids=["answer", "call"])
async def test_what_users_write_is_text(engine, called):
    engine, special = engine
    prompts = engine.watch()

    async def count(text: str) -> int:
        request = generation(
            instructions=text,
            input=[
                {"role": "user", "content": text},
                {"role": "assistant", "content": text},
                {"role": "user", "content": f"{text} It is."},
            ],
            reasoning={"effort": "low"},
        )
        function = FunctionSchema("f", None, description=f"{text} It is.")
        guidance = Guidance((function,) if called else (), call_required=called)
        request = replace(request, guidance=guidance, max_tokens=20)
        await chunks_of(engine, request)
        return await special_count(engine._runtime, prompts[-1], special)

    assert await count("".join(special)) == await count("Hi.")


async def test_else_it_would_be_more(engine):
    """So that the test above could tell."""
    engine, special = engine
    for text in special:
        plain, attacked = [
            await special_count(engine._runtime, [ChatMessage("user", said)], special)
            for said in ("Hi.", f"Hi.{text}")
        ]
        assert attacked == plain + 1
