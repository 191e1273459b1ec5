"""A message of a prompt, as Harmony writes it.

    <|start|>author to=recipient<|channel|>channel <|constrain|>json<|message|>text<|end|>

Recipient, channel and content type only where there are any; a call of a function ends with `<|call|>`.
"""

from __future__ import annotations

from dataclasses import dataclass

from service.dialect.harmony.prompt_tokens import PromptTokens
from service.dialect.harmony.vocabulary import CALL, CHANNEL, CONSTRAIN, END, MESSAGE, START


@dataclass(frozen=True, slots=True)
class Message:
    """One message. Whatever its texts spell, only the tokens around them are control tokens."""

    author: str
    """`developer`, `user`, `assistant`, or a function as `functions.NAME`."""
    text: str
    channel: str = ""
    """`analysis`, `commentary` or `final`; empty for developers and users."""
    recipient: str = ""
    """A function as `functions.NAME`, or `assistant`; empty when it is for all."""

    def write(self, prompt: PromptTokens) -> None:
        """Add the message's tokens to a prompt."""
        calls = bool(self.recipient) and self.author == "assistant"
        prompt.add([START])
        prompt.add_text(self.author)
        if self.recipient:
            prompt.add_text(f" to={self.recipient}")
        if self.channel:
            prompt.add([CHANNEL])
            prompt.add_text(self.channel)
        if calls:
            prompt.add_text(" ")
            prompt.add([CONSTRAIN])
            prompt.add_text("json")
        prompt.add([MESSAGE])
        prompt.add_text(self.text)
        prompt.add([CALL if calls else END])
