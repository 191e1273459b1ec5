"""The engine contract: prompt tokens in, token ids out.

An engine knows nothing of Responses events, items or HTTP. It takes a `GenerationRequest` that has been
validated and rendered, and gives `TokenChunk`s of whatever size it likes: the rest of the service must
come to the same response for every chunking.

Rules that every engine keeps (`tests/engine_contract.py` holds them):
  1. `async with engine.generate(request) as chunks` admits the request, or raises at `__aenter__`:
     `Overloaded` (with a retry delay), `InvalidRequest` (too long a prompt), `Unavailable`.
  2. Leaving the block, for whatever reason, aborts what still runs and frees its slot before it returns.
  3. The last chunk has a `finish_reason`, and only the last. It may hold no tokens.
  4. A stop token that ends the output is part of it.
  5. A failure while generating is raised out of the iteration as `EngineFailed`.
  6. Chunks own their data: they stay valid after the next one is asked for.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, NamedTuple, Protocol

import orjson

from service.errors import InvalidRequest, NotFound


class FinishReason(Enum):
    """Why an engine stopped by itself."""

    STOP = "stop"
    """The model ended its turn with a stop token."""
    LENGTH = "length"
    """`max_tokens` or the model's context was used up."""


@dataclass(frozen=True, slots=True)
class TokenLogprob:
    """How likely one output token was, and what else could have stood in its place."""

    token_id: int
    logprob: float
    """Natural logarithm of the token's probability; may be minus infinity."""
    top: Sequence[tuple[int, float]] = ()
    """The likeliest tokens and their logarithms, likeliest first; as many as were asked for."""


class TokenChunk(NamedTuple):
    """What an engine produced since the chunk before."""

    token_ids: Sequence[int]
    """New output token ids, in order; may be empty."""
    finish_reason: FinishReason | None = None
    """Set on the last chunk only."""
    cached_tokens: int | None = None
    """How many prompt tokens came from the engine's prefix cache, as soon as the engine knows."""
    logprobs: Sequence[TokenLogprob] = ()
    """One entry a token where the request asks for them, else none."""


@dataclass(frozen=True, slots=True)
class FunctionSchema:
    """A function that the model may call."""

    name: str
    """NAME for one of Harmony's `functions` namespace, or NAMESPACE.NAME."""
    parameters: str | None
    """JSON Schema of the arguments as JSON text, or None where the function takes none."""
    description: str = ""
    """What it does, in words for the model."""
    text_grammar: str | None = None
    """Lark grammar of the one property that the arguments have, a text; None: the schema says all."""
    path: str = "tools"
    """The request field that says what the arguments may be."""

    @property
    def recipient(self) -> str:
        """How Harmony addresses it."""
        return self.name if "." in self.name else f"functions.{self.name}"

    def schema(self) -> dict[str, Any]:
        """Return the schema of the arguments as an object; of none where it takes none."""
        schema: dict[str, Any] = orjson.loads(self.parameters or '{"type": "object", "properties": {}}')
        return schema


@dataclass(frozen=True, slots=True)
class Guidance:
    """What an engine that can constrain its output has to hold it to."""

    functions: tuple[FunctionSchema, ...] = ()
    """The functions on offer: a call's arguments match its function's schema."""
    call_required: bool = False
    """The turn must call one of `functions`."""
    answer_schema: str | None = None
    """JSON Schema, as JSON text, that an answer fits; None: any text. Reasoning stays free."""


@dataclass(frozen=True, slots=True)
class GenerationRequest:
    """One generation, ready to run."""

    request_id: str
    """Unique among running requests; for logs and the engine's own books."""
    model: str
    """A model id out of `models()`."""
    prompt_token_ids: Sequence[int]
    """The rendered prompt, in the dialect's vocabulary."""
    stop_token_ids: Sequence[int]
    """Ids that end the output; the one that does is kept in it (rule 4)."""
    max_tokens: int | None = None
    """Most output tokens; None: as many as the context allows."""
    temperature: float = 1.0
    """Sampling temperature, 0 to 2; 0 is greedy."""
    top_p: float = 1.0
    """Nucleus sampling mass, above 0 and up to 1."""
    presence_penalty: float = 0.0
    """How much tokens that have occurred are made less likely, -2 to 2."""
    frequency_penalty: float = 0.0
    """The same, for each time that they have occurred, -2 to 2."""
    seed: int | None = None
    """With the same one, chance falls the same way where the engine can; None: a new one."""
    top_logprobs: int | None = None
    """How many alternatives to give with each token's log-probability; None: no log-probabilities."""
    guidance: Guidance = field(default_factory=Guidance)
    """Constraints on the output; ignored by engines whose `ModelInfo.guided` is false."""


@dataclass(frozen=True, slots=True)
class ModelInfo:
    """One entry of the model list."""

    id: str
    """The name that clients send as `model`."""
    context_window_tokens: int
    """Most prompt and output tokens together."""
    max_output_tokens: int
    """Most output tokens of one response."""
    logprobs: bool = False
    """The engine gives log-probabilities."""
    guided: bool = False
    """The engine holds output to `Guidance`."""
    default_temperature: float = 1.0
    """The temperature of requests that name none."""
    default_top_p: float = 1.0
    """The nucleus mass of requests that name none."""
    created: int = 0
    """Unix time in seconds of the model's making, 0 when unknown."""
    owned_by: str = "openresponses"
    """Who published the model."""


class Engine(Protocol):
    """A source of tokens. See the module's rules."""

    def generate(self, request: GenerationRequest) -> AbstractAsyncContextManager[AsyncIterator[TokenChunk]]:
        """Admit `request` on entry and abort it on exit; yield its chunks in between."""
        ...

    def models(self) -> Sequence[ModelInfo]:
        """The models that this engine serves; the first is the default."""
        ...

    async def health(self) -> None:
        """Return when the engine can serve, else raise `Unavailable`."""
        ...

    async def close(self) -> None:
        """Free everything. Running generations have ended before."""
        ...


def find_model(engine: Engine, name: str) -> ModelInfo:
    """Return the engine's model of that name.

    Raises:
        InvalidRequest: no name is given.
        NotFound: there is no model of that name.
    """
    if not name:
        raise InvalidRequest("model is missing: name one of GET /v1/models, or of ListModels.", param="model")
    for model in engine.models():
        if model.id == name:
            return model
    raise NotFound(
        f"The model {name[:100]!r} does not exist here: GET /v1/models, or ListModels, has those that do.",
        code="model_not_found",
        param="model",
    )
