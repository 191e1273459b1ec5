"""llama.cpp in this process: chat completions of one GGUF model, as asynchronous streams of text.

The runtime calls back from its own threads; here its pieces cross into the event loop. A stream that is
left tells the runtime so at the next callback: after every token, and every `_BATCH_TOKENS` of a prompt.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import httpx
import xllamacpp

from service.engine.base import TokenLogprob
from service.errors import EngineFailed, StartupError, Unavailable

_BATCH_TOKENS: Final = 64
"""Prompt tokens to a batch: small, so that a cancelled prompt ends within half a second on a laptop."""
_TOKENIZE_TIMEOUT_S: Final = 30.0
"""Longest wait for the number of a text's tokens, in seconds; one text is counted after the other."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ChatMessage:
    """One message, in the words of the model's own chat template."""

    role: str
    """`system`, `user` or `assistant`."""
    content: str


@dataclass(frozen=True, slots=True)
class Sampling:
    """How the next token is picked."""

    temperature: float
    top_p: float
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    seed: int | None = None
    """None: a new one each time."""
    grammar: str = ""
    """What the text is held to, in llama.cpp's notation; empty: nothing."""


@dataclass(frozen=True, slots=True)
class TextToken:
    """One token of a completion."""

    entry: TokenLogprob
    """Its id and log-probability."""
    text: bytes
    """Its bytes; of a character that spans tokens, the last of them has the bytes of all."""


class Completion:
    """The text of one answer, piece by piece; each piece is whole characters.

    Attributes:
        truncated: a limit ended the text; set once the iteration is over.
        cached_tokens: tokens of the prompt that were computed before; set from the first piece on.

    """

    def __init__(self) -> None:
        self.truncated = False
        self.cached_tokens = 0
        self._loop = asyncio.get_running_loop()
        # Bounded by the request's own limit of tokens.
        self._chunks: asyncio.Queue[Mapping[str, Any] | None] = asyncio.Queue()
        self._finished = False
        self._fault: BaseException | None = None
        self._left = threading.Event()

    def leave(self) -> None:
        """Have the runtime stop at its next callback."""
        self._left.set()

    def take(self, chunk: Mapping[str, Any]) -> bool:
        """Take a chunk, in the runtime's thread; True tells it to stop."""
        if self._left.is_set():
            return True
        self._loop.call_soon_threadsafe(self._chunks.put_nowait, chunk)
        return False

    def end(self, fault: BaseException | None) -> None:
        """Say, in the event loop, that the runtime is done; with `fault`, that it broke."""
        self._fault = fault
        self._chunks.put_nowait(None)

    async def __aiter__(self) -> AsyncIterator[str]:
        """Yield the pieces of a chat.

        Raises:
            EngineFailed: the runtime gives up.

        """
        async for choice in self._choices():
            if piece := choice.get("delta", {}).get("content"):
                yield piece

    async def tokens(self) -> AsyncGenerator[TextToken, None]:
        """Yield the tokens of a completion; one that ends it, too.

        Raises:
            EngineFailed: the runtime gives up.

        """
        async for choice in self._choices():
            for entry in (choice.get("logprobs") or {}).get("content", ()):
                top = [(other["id"], other["logprob"]) for other in entry["top_logprobs"]]
                yield TextToken(TokenLogprob(entry["id"], entry["logprob"], top), bytes(entry["bytes"]))

    async def _choices(self) -> AsyncGenerator[Mapping[str, Any], None]:
        while (chunk := await self._chunks.get()) is not None:
            if "error" in chunk:
                raise EngineFailed(_refusal(chunk["error"]))
            self.cached_tokens = chunk.get("prompt_progress", {}).get("cache", self.cached_tokens)
            for choice in chunk.get("choices", ()):
                if reason := choice.get("finish_reason"):
                    self._finished = True
                    self.truncated = reason == "length"
                yield choice
        if self._fault or not self._finished:
            # An end that nobody announced is no end of the text.
            raise EngineFailed(_refusal({})) from self._fault


class LlamaRuntime:
    """One model in memory, answering up to `slots` chats at once.

    A process should not hold models of different vocabularies to grammars, even one after the other:
    llama.cpp finds the vocabulary of its last grammar again by its address (`common/llguidance.cpp`), and
    aborts where a model of another size has come to lie there.
    """

    def __init__(self, path: Path, *, slots: int, context_tokens: int) -> None:
        """Load the model. `context_tokens`: prompt and text of one chat, in the model's own tokens.

        Raises:
            StartupError: the file is missing, or not a model that llama.cpp can run.

        """
        if not path.is_file():
            raise StartupError(f"The model {path} does not exist. See --model: it names a GGUF file.")
        # llama.cpp's own HTTP face cannot be turned off: it listens on the loopback, and wants this key.
        key = secrets.token_urlsafe(32)
        params = xllamacpp.CommonParams()
        params.model.path = str(path)
        params.verbosity = 0
        params.ui = False
        params.api_keys = [key]
        params.n_threads_http = 1
        params.n_parallel = slots
        params.n_ctx = context_tokens * slots
        params.n_batch = params.n_ubatch = _BATCH_TOKENS
        params.n_gpu_layers = 0
        params.cache_ram_mib = 0
        params.fit_params = False
        params.warmup = False
        try:
            self._server = xllamacpp.Server(params)
        except (RuntimeError, ValueError) as error:
            raise StartupError(
                f"llama.cpp cannot load the model {path}: is it a GGUF file? See --model."
            ) from error
        self._http = httpx.AsyncClient(
            base_url=self._server.listening_address,
            headers={"authorization": f"Bearer {key}"},
            timeout=_TOKENIZE_TIMEOUT_S,
            trust_env=False,
        )
        self._threads = ThreadPoolExecutor(slots, thread_name_prefix="llama")

    async def count_tokens(self, text: str) -> int:
        """Return how many of the model's own tokens the text has.

        Raises:
            Unavailable: the runtime does not say, or not in time.

        """
        try:
            answer = await self._http.post("/tokenize", json={"content": text})
            return len(answer.raise_for_status().json()["tokens"])
        except httpx.HTTPError as error:
            _log.warning("llama.cpp counts no tokens: %r", error)
            raise Unavailable("llama.cpp is too busy to read the request. Try again.") from error

    def control_token(self, marker: str) -> int | None:
        """Return the id of a control token by its spelling, None where there is no such token. Blocks."""
        answer = httpx.post(
            f"{self._server.listening_address}/tokenize",
            headers=self._http.headers,
            json={"content": marker, "parse_special": True},
            trust_env=False,
        )
        tokens = answer.raise_for_status().json()["tokens"]
        return tokens[0] if len(tokens) == 1 else None

    @asynccontextmanager
    async def complete(
        self, prompt: Sequence[int], sampling: Sampling, *, max_tokens: int, top_logprobs: int
    ) -> AsyncGenerator[Completion, None]:
        """Yield what follows the tokens of a prompt, to be read with `Completion.tokens`."""
        body = {
            "prompt": list(prompt),
            "n_predict": max_tokens,
            # Token ids are told only beside log-probabilities.
            "n_probs": max(1, top_logprobs),
            "cache_prompt": True,
            **self._options(sampling),
        }
        async with self._running(self._server.handle_completions, body) as completion:
            yield completion

    @asynccontextmanager
    async def chat(
        self, messages: Sequence[ChatMessage], sampling: Sampling, *, max_tokens: int
    ) -> AsyncGenerator[Completion, None]:
        """Yield the model's next message; leaving the block stops it, and waits until it has stopped.

        A last message of the assistant is continued. `max_tokens` counts the model's own tokens.
        """
        body = {
            "messages": [{"role": m.role, "content": m.content} for m in messages],
            "reasoning_format": "none",
            "max_tokens": max_tokens,
            **({} if sampling.grammar else {"dry_multiplier": 0.8}),
            **self._options(sampling),
        }
        async with self._running(self._server.handle_chat_completions, body) as completion:
            yield completion

    @staticmethod
    def _options(sampling: Sampling) -> dict[str, Any]:
        return {
            "stream": True,
            # Brings a callback for every batch of the prompt.
            "return_progress": True,
            "temperature": sampling.temperature,
            "top_p": sampling.top_p,
            "presence_penalty": sampling.presence_penalty,
            "frequency_penalty": sampling.frequency_penalty,
            **({} if sampling.seed is None else {"seed": sampling.seed}),
            **({"grammar": sampling.grammar} if sampling.grammar else {}),
        }

    @asynccontextmanager
    async def _running(
        self,
        handler: Callable[[dict[str, Any], Callable[[Mapping[str, Any]], bool]], Any],
        body: dict[str, Any],
    ) -> AsyncGenerator[Completion, None]:
        completion = Completion()
        work = asyncio.get_running_loop().run_in_executor(self._threads, handler, body, completion.take)
        work.add_done_callback(lambda work: completion.end(work.exception()))
        try:
            yield completion
        finally:
            completion.leave()
            await asyncio.wait([work])

    async def close(self) -> None:
        """Free the model. No chat may be running."""
        await self._http.aclose()
        self._threads.shutdown()
        del self._server


def _refusal(error: Mapping[str, Any]) -> str:
    if error.get("type") == "exceed_context_size_error":
        return "The input and the answer are longer than the model's context: shorten the input."
    return "llama.cpp could not go on. Try again."
