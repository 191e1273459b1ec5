"""A Harmony prompt read back into messages, for models that have a chat template of their own. Sans-IO.

Reasoning of earlier turns is left out. Such a model knows no channels and no recipients: calls of functions
and their results become text, in words or in markup that it knows.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from service.dialect.harmony.vocabulary import (
    CALL,
    CHANNEL,
    CONSTRAIN,
    END,
    FIRST_SPECIAL,
    MESSAGE,
    START,
    token_bytes,
)
from service.engine.llama_runtime import ChatMessage
from service.engine.special_texts import SpecialTexts

_SYSTEM: Final = "You are a helpful assistant."
_EFFORT: Final = re.compile(r"^Reasoning: (\w+)$", re.MULTILINE)
_INSTRUCTIONS: Final = "# Instructions\n\n"
# As the prompt's renderer writes them; headings alone are what people write, too.
_TOOLS: Final = re.compile(r"(?:^|\n\n)# Tools\n\n## ([\w-]+)\n\n(?://.*\n)*namespace \1 \{")
_FORMATS: Final = re.compile(r"(?:^|\n\n)(# Response Formats\n\n## [\w-]+\n\n(?://.*\n)*\{[^\n]*\})$")
_AUTHORS: Final = frozenset({"system", "developer", "user", "assistant"})


@dataclass(frozen=True, slots=True)
class Conversation:
    """What a Harmony prompt says."""

    effort: str
    """Harmony's reasoning effort: `low`, `medium` or `high`."""
    messages: tuple[ChatMessage, ...]
    """System, user and assistant messages, in order; the first is the system's."""
    question: str | None
    """The user's message, when it is the last."""
    after_result: bool
    """The last message is a function's result."""
    answer_format: str = ""
    """What the answer must look like, as Harmony declares it; empty for any text."""

    def with_messages(self, messages: Sequence[ChatMessage]) -> Conversation:
        """Return the same with other messages."""
        return replace(self, messages=tuple(messages))


@dataclass(frozen=True, slots=True)
class Wording:
    """How calls of functions and their results are told, with `{name}` and `{text}`."""

    call: str
    result: str


TOLD: Final = Wording("I call {name}({text}).", "The result of {name}: {text}")
"""In words, for models that know no functions."""
TAGGED: Final = Wording(
    '<tool_call>\n{{"name": "{name}", "arguments": {text}}}\n</tool_call>',
    "<tool_response>\n{text}\n</tool_response>",
)
"""In the markup of Hermes and Qwen models."""


@dataclass(frozen=True, slots=True)
class _Written:
    author: str
    channel: str
    text: str


def read_prompt(prompt: Sequence[int], wording: Wording, special: SpecialTexts) -> Conversation:
    """Return the conversation of a prompt that `dialect.harmony.prompt.render` has written.

    Nothing in it is `special` to the model, but for the markup of `wording`.
    """
    effort, system, answer_format, messages = "medium", _SYSTEM, "", list[ChatMessage]()
    question: str | None = None
    after_result = False
    for written in _messages(prompt):
        author, _, recipient = written.author.partition(" to=")
        text = special.defused(written.text)
        question = text if author == "user" else None
        after_result = author not in _AUTHORS
        match author:
            case "system":
                effort = found[1] if (found := _EFFORT.search(text)) else effort
            case "developer" if not messages:
                instructions, answer_format = _instructions(text)
                system = instructions or system
            case "developer":
                messages.append(ChatMessage("system", _instructions(text)[0]))
            case "user":
                messages.append(ChatMessage("user", text))
            case "assistant" if recipient:
                name = recipient.removeprefix("functions.")
                messages.append(ChatMessage("assistant", wording.call.format(name=name, text=text)))
            case "assistant" if written.channel != "analysis":
                messages.append(ChatMessage("assistant", text))
            case "assistant":
                pass
            case function:
                name = function.removeprefix("functions.")
                messages.append(ChatMessage("user", wording.result.format(name=name, text=text)))
    messages.insert(0, ChatMessage("system", system))
    return Conversation(effort, tuple(messages), question, after_result, answer_format)


def _messages(prompt: Sequence[int]) -> Iterator[_Written]:
    """Yield the messages of a prompt; its last start, where the model goes on, is none."""
    author, channel, part = "", "", list[int]()
    for token in prompt:
        match token:
            case _ if token < FIRST_SPECIAL:
                part.append(token)
                continue
            case t if t == CHANNEL:
                author = _text(part)
            case t if t == CONSTRAIN:
                channel = _text(part)
            case t if t == MESSAGE:
                author, channel = (author, channel or _text(part)) if author else (_text(part), "")
            case t if t in (END, CALL):
                yield _Written(author, channel.strip(), _text(part))
                author = channel = ""
            case t if t == START:
                author = channel = ""
        part = []


def _text(tokens: Sequence[int]) -> str:
    table = token_bytes()
    return b"".join(table[token] for token in tokens).decode()


def _instructions(developer_text: str) -> tuple[str, str]:
    """The developer's words, without the declarations behind them; and that of the answer's format."""
    formats = _FORMATS.search(developer_text)
    text = developer_text[: formats.start()] if formats else developer_text
    *_, tools = [None, *_TOOLS.finditer(text)]
    text = text[: tools.start()] if tools else text
    return text.removeprefix(_INSTRUCTIONS), formats[1] if formats else ""
