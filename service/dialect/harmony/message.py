"""A message of a prompt, as Harmony writes it.

    <|start|>author to=recipient<|channel|>channel <|constrain|>json<|message|>text<|end|>

Recipient, channel and content type only where there are any; a call of a function ends with `<|call|>`.
"""

from __future__ import annotations

from dataclasses import dataclass

from service.dialect.harmony.vocabulary import CALL, CHANNEL, CONSTRAIN, END, MESSAGE, START, encode


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

    def tokens(self) -> list[int]:
        """Return the message's tokens."""
        calls = bool(self.recipient) and self.author == "assistant"
        tokens = [START, *encode(self.author)]
        if self.recipient:
            tokens += encode(f" to={self.recipient}")
        if self.channel:
            tokens += [CHANNEL, *encode(self.channel)]
        if calls:
            tokens += [*encode(" "), CONSTRAIN, *encode("json")]
        return [*tokens, MESSAGE, *encode(self.text), CALL if calls else END]
