"""Log-probabilities of tokens, told in text and bytes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from openresponses.v1.content_pb2 import Logprob, TopLogprob

from service.dialect.harmony.vocabulary import FIRST_SPECIAL
from service.engine.base import TokenLogprob

_LEAST: Final = -9999.0
"""Stands for minus infinity and for what is no number, which JSON cannot say; OpenAI's own figure."""


def text_logprob(entry: TokenLogprob, token_bytes: Sequence[bytes]) -> Logprob:
    """Return a text token's entry. Alternatives that are control tokens are left out: they have no text."""
    data = token_bytes[entry.token_id]
    return Logprob(
        token=data.decode(errors="replace"),
        bytes=data,
        logprob=_told(entry.logprob),
        top_logprobs=[
            _alternative(token_bytes[token_id], logprob)
            for token_id, logprob in entry.top
            if token_id < FIRST_SPECIAL
        ],
    )


def _alternative(data: bytes, logprob: float) -> TopLogprob:
    return TopLogprob(token=data.decode(errors="replace"), bytes=data, logprob=_told(logprob))


def _told(logprob: float) -> float:
    return logprob if logprob > _LEAST else _LEAST
