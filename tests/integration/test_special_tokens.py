"""What users write is never a special token of the model's: its prompt has those of its template, and no others.

Each model has a process of its own: llama.cpp remembers the vocabulary of the last grammar by its address, and
ends the process when it finds another model's there. A service serves one.
"""

import asyncio
from collections.abc import Callable, Coroutine, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from multiprocessing import get_context
from pathlib import Path

import gguf
import pytest

from service.engine.base import FunctionSchema, Guidance
from service.engine.embedded import bundled_model
from service.engine.llama_cpp import LlamaCppEngine
from service.engine.llama_runtime import ChatMessage, LlamaRuntime
from tests.engine_contract import chunks_of
from tests.generation import generation
from tests.gguf_chain import write_family

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


async def special_count(runtime: LlamaRuntime, messages: list[ChatMessage], special: Sequence[str]) -> int:
    """How many special tokens llama.cpp reads in the prompt of these messages."""
    ids = {runtime.control_token(text) for text in special}
    assert None not in ids
    document = {"messages": [{"role": m.role, "content": m.content} for m in messages]}
    prompt = (await runtime._http.post("/apply-template", json=document)).json()["prompt"]
    # As it reads prompts of chats.
    document = {"content": prompt, "parse_special": True}
    tokens = (await runtime._http.post("/tokenize", json=document)).json()["tokens"]
    return sum(token in ids for token in tokens)


async def asked_counts(path: Path, special: Sequence[str], texts: Sequence[str], called: bool) -> list[int]:
    """The special tokens of the prompts for requests that have a text wherever users can write one."""
    engine = Seen(path, "m", slots=1, max_queued_requests=0)
    prompts = engine.watch()
    counts = []
    for text in texts:
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
        await chunks_of(engine, replace(request, guidance=guidance, max_tokens=20))
        counts.append(await special_count(engine._runtime, prompts[-1], special))
    await engine.close()
    return counts


async def raw_counts(path: Path, special: Sequence[str], texts: Sequence[str]) -> list[int]:
    """The special tokens of prompts that have a text as it is."""
    runtime = LlamaRuntime(path, slots=1, context_tokens=256)
    counts = [await special_count(runtime, [ChatMessage("user", text)], special) for text in texts]
    await runtime.close()
    return counts


Count = Callable[..., Coroutine[None, None, list[int]]]
"""One of the functions above."""


def run(count: Count, *args: object) -> list[int]:
    return asyncio.run(count(*args))


@dataclass(frozen=True)
class Model:
    """A model's process, and what is special to the model."""

    path: Path
    special: Sequence[str]
    process: ProcessPoolExecutor

    def count(self, count: Count, *args: object) -> list[int]:
        return self.process.submit(run, count, self.path, self.special, *args).result()


@pytest.fixture(scope="module", params=["bundled", *FAMILIES])
def model(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Model]:
    if request.param == "bundled":
        path, special = bundled_model(), BUNDLED
    else:
        path = family_file(tmp_path_factory.mktemp("model"), request.param)
        special = list(FAMILIES[request.param])
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as process:
        yield Model(path, special, process)


@pytest.mark.parametrize("called", [False, True], ids=["answer", "call"])
def test_what_users_write_is_text(model, called):
    attacked, plain = model.count(asked_counts, ["".join(model.special), "Hi."], called)
    assert attacked == plain


def test_else_it_would_be_more(model):
    """So that the test above could tell."""
    plain, *attacked = model.count(raw_counts, ["Hi.", *(f"Hi.{text}" for text in model.special)])
    assert attacked == [plain + 1] * len(model.special)
