"""Which function a small model calls.

A model of a hundred million parameters cannot tell whether a function would help: asked, it picks at random.
So the words decide: a function is called when the user's last message shares a word of substance with its
name, description or parameters. What it is called with is the model's own.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from service.engine.base import FunctionSchema, Guidance

_WORD: Final = re.compile(r"[^\W\d_]{3,}")
_HUMP: Final = re.compile(r"(?<=[a-z])(?=[A-Z])")
_EMPTY_WORDS: Final = """
    about all and any are argument array boolean call can description does for from function get
    given has have how integer into its name not number object one optional parameter properties
    required return returns set some string that the their them then there this type use used user
    value was what when where which who why will with you your
"""
_EMPTY: Final = frozenset(_EMPTY_WORDS.split())


def choose_function(guidance: Guidance, question: str | None) -> FunctionSchema | None:
    """Return the function to call, or None to answer. `question`: the user's message, if that is the last."""
    words = _words(question or "")
    best, shared = None, 0
    for function in guidance.functions:
        count = len(words & _function_words(function))
        if count > shared:
            best, shared = function, count
    if best is None and guidance.call_required:
        return guidance.functions[0]
    return best


def _function_words(function: FunctionSchema) -> frozenset[str]:
    return _words(f"{_HUMP.sub(' ', function.name)} {function.description} {function.parameters or ''}")


def _words(text: str) -> frozenset[str]:
    words: Sequence[str] = _WORD.findall(text.replace("_", " ").lower())
    return frozenset(word.removesuffix("s") for word in words if word not in _EMPTY)
