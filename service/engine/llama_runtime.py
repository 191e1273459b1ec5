"""llama.cpp in this process: chat completions of one GGUF model, as asynchronous streams of text.

The runtime calls back from its own threads; here its pieces cross into the event loop. A stream that is
left tells the runtime so at the next callback: after every token, and every `_BATCH_TOKENS` of a prompt.
"""

from __future__ import annotations

import asyncio
import secrets
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import httpx
import xllamacpp

from service.errors import EngineFailed, StartupError

_BATCH_TOKENS: Final = 64
"""Prompt tokens to a batch: small, so that a cancelled prompt ends within half a second on a laptop."""


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
    grammar: str = ""
    """What the text is held to, in llama.cpp's notation; empty: nothing."""


class Completion:
    """The text of one answer, piece by piece; each piece is whole characters.

    Attributes:
        truncated: a limit ended the text; set once the iteration is over.

    """

    def __init__(self) -> None:
        self.truncated = False
        self._loop = asyncio.get_running_loop()
        # Bounded by the request's own limit of tokens.
        self._chunks: asyncio.Queue[Mapping[str, Any] | None] = asyncio.Queue()
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

    def end(self) -> None:
        """Say, in the event loop, that the runtime is done."""
        self._chunks.put_nowait(None)

    async def __aiter__(self) -> AsyncIterator[str]:
        """Yield the pieces.

        Raises:
            EngineFailed: the runtime gives up.

        """
        while (chunk := await self._chunks.get()) is not None:
            if "error" in chunk:
                raise EngineFailed(_refusal(chunk["error"]))
            for choice in chunk.get("choices", ()):
                if choice.get("finish_reason") == "length":
                    self.truncated = True
                if piece := choice.get("delta", {}).get("content"):
                    yield piece


class LlamaRuntime:
    """One model in memory, answering up to `slots` chats at once."""

    def __init__(self, path: Path, *, slots: int, context_tokens: int) -> None:
        """Load the model. `context_tokens`: prompt and text of one chat, in the model's own tokens.

        Raises:
            StartupError: the file is missing, or not a model that llama.cpp can run.

        """
        if not path.is_file():
            raise StartupError(f"The model {path} does not exist: name a GGUF file.")
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
            raise StartupError(f"llama.cpp cannot load the model {path}: is it a GGUF file?") from error
        self._http = httpx.AsyncClient(
            base_url=self._server.listening_address,
            headers={"authorization": f"Bearer {key}"},
            trust_env=False,
        )
        self._threads = ThreadPoolExecutor(slots, thread_name_prefix="llama")

    async def count_tokens(self, text: str) -> int:
        """Return how many of the model's own tokens the text has."""
        answer = await self._http.post("/tokenize", json={"content": text})
        return len(answer.raise_for_status().json()["tokens"])

    @asynccontextmanager
    async def chat(
        self, messages: Sequence[ChatMessage], sampling: Sampling, *, max_tokens: int
    ) -> AsyncGenerator[Completion, None]:
        """Yield the model's next message; leaving the block stops it, and waits until it has stopped.

        A last message of the assistant is continued. `max_tokens` counts the model's own tokens.
        """
        completion = Completion()
        body = {
            "messages": [{"role": m.role, "content": m.content} for m in messages],
            "stream": True,
            # Brings a callback for every batch of the prompt.
            "return_progress": True,
            "reasoning_format": "none",
            "max_tokens": max_tokens,
            "temperature": sampling.temperature,
            "top_p": sampling.top_p,
            **({"grammar": sampling.grammar} if sampling.grammar else {"dry_multiplier": 0.8}),
        }
        work = asyncio.get_running_loop().run_in_executor(
            self._threads, self._server.handle_chat_completions, body, completion.take
        )
        work.add_done_callback(lambda _: completion.end())
        try:
            yield completion
            if work.done() and (fault := work.exception()):
                raise EngineFailed(_refusal({})) from fault
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
