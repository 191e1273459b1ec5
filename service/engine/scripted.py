"""The scripted engine: plays written turns, with their chunking, delays and faults. For tests and benchmarks.

A script is a JSON file `{"<name>": turn, ...}`; requests pick a turn by `model: "<name>"`. It plays what is
written, past stop tokens too: a script says exactly what an engine delivered. The keys of a turn:

    harmony         the output as text, with special tokens written out; or
    tokens          the output as token ids
    chunks          tokens to a chunk: a number (default 1), or a list of sizes, the last of which repeats
    delay_ms        milliseconds before each chunk (default 0)
    finish_reason   "stop" (default) or "length"
    fail_after      tokens after which the engine fails
    hang_after      tokens after which nothing comes any more until the request is aborted
    logprobs        true: made-up log-probabilities, told by the token's id, come with the tokens
    repeat          how often the output is repeated (default 1)

or only `turns`, a list of turns for a conversation: played is the one whose position is the number of
messages that the model has written in the prompt, and the last one from there on.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from itertools import chain, repeat
from pathlib import Path
from typing import Annotated, Final, Literal, Self

from pydantic import (
    BaseModel,
    ConfigDict,
    Discriminator,
    Field,
    Tag,
    TypeAdapter,
    ValidationError,
    model_validator,
)

from service.dialect.harmony import vocabulary
from service.engine.admission import Admission
from service.engine.base import FinishReason, GenerationRequest, ModelInfo, TokenChunk, TokenLogprob
from service.errors import EngineFailed, StartupError

CONTEXT_WINDOW_TOKENS: Final = 131_072
"""Prompt and output that a scripted model pretends to hold: as much as gpt-oss does."""


class Turn(BaseModel):
    """One written turn; see the module."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    harmony: str | None = None
    tokens: tuple[Annotated[int, Field(ge=0, lt=2**31)], ...] | None = None
    chunks: Annotated[int, Field(ge=1)] | tuple[Annotated[int, Field(ge=1)], ...] = 1
    delay_ms: Annotated[float, Field(ge=0)] = 0
    finish_reason: Literal["stop", "length"] = "stop"
    fail_after: Annotated[int, Field(ge=0)] | None = None
    hang_after: Annotated[int, Field(ge=0)] | None = None
    repeat: Annotated[int, Field(ge=1)] = 1
    logprobs: bool = False

    @model_validator(mode="after")
    def _one_source(self) -> Self:
        if (self.harmony is None) == (self.tokens is None):
            raise ValueError("exactly one of harmony and tokens must be given")
        if self.fail_after is not None and self.hang_after is not None:
            raise ValueError("a turn cannot both fail and hang")
        if self.chunks == ():
            raise ValueError("chunks must name at least one size")
        return self


class Conversation(BaseModel):
    """Turns that are played one after another."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    turns: Annotated[tuple[Turn, ...], Field(min_length=1)]


def _tag(entry: object) -> str:
    return "conversation" if isinstance(entry, dict) and "turns" in entry else "turn"


_Entry = Annotated[
    Annotated[Turn, Tag("turn")] | Annotated[Conversation, Tag("conversation")], Discriminator(_tag)
]
_SCRIPT: Final = TypeAdapter(dict[str, _Entry])


class ScriptedEngine:
    """Plays a script. `slots` and `max_queued_requests` bound it as they bound real engines."""

    def __init__(self, path: Path, *, slots: int, max_queued_requests: int) -> None:
        """Read the script.

        Raises:
            StartupError: the file cannot be read, or something in it is wrong.
        """
        script = _read_script(path)
        self._turns = {name: tuple(map(_Prepared, turns)) for name, turns in script.items()}
        self._admission = Admission(slots=slots, max_queued_requests=max_queued_requests)
        self._models = [
            ModelInfo(
                id=name,
                context_window_tokens=CONTEXT_WINDOW_TOKENS,
                max_output_tokens=CONTEXT_WINDOW_TOKENS,
                logprobs=all(turn.logprobs for turn in turns),
            )
            for name, turns in script.items()
        ]

    @property
    def running(self) -> int:
        """Slots in use."""
        return self._admission.running

    def models(self) -> Sequence[ModelInfo]:
        """Every name in the script is a model."""
        return self._models

    @asynccontextmanager
    async def generate(self, request: GenerationRequest) -> AsyncGenerator[AsyncIterator[TokenChunk], None]:
        """Play the turn that `request.model` names."""
        async with self._admission.place() as slot:
            turns = self._turns[request.model]
            turn = turns[min(_messages_written(request.prompt_token_ids), len(turns) - 1)]
            yield turn.play(slot, request.max_tokens, request.top_logprobs)

    async def health(self) -> None:
        """Scripts are always ready."""

    async def close(self) -> None:
        """Nothing is held."""


class _Prepared:
    """A turn with its tokens at hand."""

    def __init__(self, turn: Turn) -> None:
        self._turn = turn
        encode = vocabulary.load_encoding().encode
        self._tokens: list[int] = (
            encode(turn.harmony, allowed_special="all")
            if turn.harmony is not None
            else list(turn.tokens or ())
        )

    async def play(
        self, slot: asyncio.Future[None], max_tokens: int | None, top_logprobs: int | None
    ) -> AsyncGenerator[TokenChunk, None]:
        """Yield the turn's chunks, `max_tokens` of them at most."""
        turn = self._turn
        await slot
        count = len(self._tokens) * turn.repeat
        reason = FinishReason(turn.finish_reason)
        if max_tokens is not None and max_tokens < count:
            count, reason = max_tokens, FinishReason.LENGTH
        stops = [stop for stop in (turn.fail_after, turn.hang_after) if stop is not None and stop <= count]
        end = min(stops, default=count)
        at = 0
        loop = asyncio.get_running_loop()
        due_at = loop.time()
        for size in self._sizes():
            last = at + size >= end
            chunk = self._slice(at, min(at + size, end))
            logprobs = () if top_logprobs is None else [_made_up(token, top_logprobs) for token in chunk]
            if turn.delay_ms:
                # By the clock, so that a late chunk does not make all that follow late.
                due_at += turn.delay_ms / 1000
                await asyncio.sleep(max(0, due_at - loop.time()))
            at += size
            if not last:
                yield TokenChunk(chunk, logprobs=logprobs)
            elif not stops:
                yield TokenChunk(chunk, reason, logprobs=logprobs)
                return
            else:
                if chunk:
                    yield TokenChunk(chunk, logprobs=logprobs)
                break
        if turn.fail_after is not None:
            raise EngineFailed("The script makes the engine fail here.")
        await asyncio.Event().wait()

    def _sizes(self) -> Iterator[int]:
        sizes = self._turn.chunks
        return repeat(sizes) if isinstance(sizes, int) else chain(sizes, repeat(sizes[-1]))

    def _slice(self, start: int, stop: int) -> list[int]:
        """Tokens `start` to `stop` of the repeated output, without making all of it."""
        length = len(self._tokens)
        if not length:
            return []
        first, offset = divmod(start, length)
        if stop <= (first + 1) * length:
            return self._tokens[offset : offset + stop - start]
        turns = -(-(offset + stop - start) // length)
        return (self._tokens * turns)[offset : offset + stop - start]


def _made_up(token: int, top: int) -> TokenLogprob:
    """The token itself is the likeliest; the ids after it follow."""
    logprob = -(1 + token % 100) / 100
    return TokenLogprob(token, logprob, [(token + i, logprob - i) for i in range(top)])


def _read_script(path: Path) -> dict[str, tuple[Turn, ...]]:
    try:
        script = _SCRIPT.validate_json(path.read_bytes())
    except OSError as error:
        raise StartupError(f"The script {path} cannot be read: {error.strerror}. See --script.") from error
    except ValidationError as error:
        fault = error.errors()[0]
        # The second part says which of the two kinds the entry is.
        where = ".".join(str(part) for i, part in enumerate(fault["loc"]) if i != 1)
        raise StartupError(f"The script {path} is wrong at {where or 'its top'}: {fault['msg']}.") from error
    if not script:
        raise StartupError(f"The script {path} holds no turn.")
    return {
        name: entry.turns if isinstance(entry, Conversation) else (entry,) for name, entry in script.items()
    }


def _messages_written(prompt: Sequence[int]) -> int:
    """How many messages of the model stand in the prompt; the one it is about to write does not count."""
    start = vocabulary.START
    (assistant,) = vocabulary.encode("assistant")
    return sum(1 for i, token in enumerate(prompt[:-1]) if token == start and prompt[i + 1] == assistant) - 1
