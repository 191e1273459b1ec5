"""One function for each message type, built from its descriptor together with those of all that it holds."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

if TYPE_CHECKING:
    from google.protobuf.descriptor import Descriptor
    from google.protobuf.message import Message

_F = TypeVar("_F", bound=Callable[..., Any])


class PerType(ABC, Generic[_F]):
    """Builds functions that call one another. One thread at a time."""

    def __init__(self) -> None:
        self._built: dict[Descriptor, _F] = {}
        self._begun: set[Descriptor] = set()

    def of(self, message: Descriptor) -> _F:
        """Return the function of a message type. Raises what `build` does."""
        if message in self._built:
            return self._built[message]
        if message in self._begun:
            # It can hold messages of its own type: by the time one is looked at, the function is there.
            return cast("_F", lambda *given: self._built[message](*given))
        self._begun.add(message)
        built = self._built[message] = self.build(message)
        return built

    @abstractmethod
    def build(self, message: Descriptor) -> _F:
        """Build the function of a message type; it asks `of` for those of the messages in it."""


def remembered(per_type: type[PerType[_F]]) -> Callable[[type[Message]], _F]:
    """Return what returns the function of a class of messages. Threads may share it: some are built twice."""
    known: dict[type[Message], _F] = {}

    def of(message_class: type[Message]) -> _F:
        found = known.get(message_class)
        if found is None:
            found = known[message_class] = per_type().of(cast("Descriptor", message_class.DESCRIPTOR))
        return found

    return of
