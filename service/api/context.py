"""What comes before a request's own input: the responses it continues, a conversation, items it refers to."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from openresponses.v1.item_pb2 import InputItem
from openresponses.v1.service_pb2 import CreateResponseRequest
from openresponses.v1.status_pb2 import RESPONSE_STATUS_IN_PROGRESS, RESPONSE_STATUS_QUEUED

from service.api.sealing import Sealer
from service.errors import InvalidRequest, NotFound
from service.files.file_reader import FileReader
from service.items import as_items, as_later_input, item_id, response_id_of
from service.long_work import in_thread_if_long, items_bytes
from service.run.opening import conversation_id
from service.store.conversations import ConversationStore
from service.store.responses import ResponseStore, Stored

MAX_REFERRED_RESPONSES: Final = 100
"""Most responses that the item references of one request may lead to."""


class ContextReader:
    """Reads what requests build on."""

    def __init__(
        self, store: ResponseStore, conversations: ConversationStore, sealer: Sealer, files: FileReader
    ) -> None:
        self._store = store
        self._conversations = conversations
        self._sealer = sealer
        self._files = files

    async def history(self, request: CreateResponseRequest, owner: str) -> list[InputItem]:
        """Return the items that come before a request's input.

        Raises:
            NotFound: what it names does not exist, or belongs to somebody else.
            InvalidRequest: it names both, or a response that has not ended; or the conversation is full, or
                has an item of the input already.

        """
        conversation = conversation_id(request)
        for name, value in (
            ("previous_response_id", request.previous_response_id),
            ("conversation", conversation),
        ):
            if request.HasField(name) and not value:  # type: ignore[arg-type]
                raise InvalidRequest(f"{name} is empty: name one, or leave it out.", param=name)
        if not request.previous_response_id and not conversation:
            return []
        if request.previous_response_id and conversation:
            raise InvalidRequest(
                "previous_response_id and conversation cannot both be set: choose one.",
                param="previous_response_id",
            )
        if conversation:
            items = await self._conversations.history(owner, conversation, as_items(request.input))
            return await in_thread_if_long(items_bytes(items), self._readable, items, owner, "conversation")
        chain = await self._store.chain(owner, request.previous_response_id)
        if chain[-1].response.status in (RESPONSE_STATUS_QUEUED, RESPONSE_STATUS_IN_PROGRESS):
            raise InvalidRequest(
                "The previous response has not ended yet: wait for it, or cancel it.",
                param="previous_response_id",
            )
        items = [item for stored in chain for item in _items(stored)]
        return await in_thread_if_long(
            items_bytes(items), self._readable, items, owner, "previous_response_id"
        )

    async def resolve_references(self, request: CreateResponseRequest, owner: str) -> None:
        """Put the items that a request's input refers to in the place of the references.

        Raises:
            NotFound: there is no such item that belongs to `owner`; `param` is its path.
            InvalidRequest: they lead to too many responses.

        """
        items = request.input.items.items
        referring: dict[str, list[int]] = {}
        for i, item in enumerate(items):
            if item.HasField("item_reference"):
                referring.setdefault(response_id_of(item.item_reference.id), []).append(i)
        if len(referring) > MAX_REFERRED_RESPONSES:
            raise InvalidRequest(
                f"input may refer to items of {MAX_REFERRED_RESPONSES} responses at most: send the items "
                "themselves.",
                param="input",
            )
        # Each response is read once, and one at a time: it may be large.
        for response_id, places in referring.items():
            known = await self._kept_items(owner, response_id)
            for i in places:
                wanted = items[i].item_reference.id
                if wanted not in known:
                    raise NotFound(
                        f"input[{i}] refers to the item {wanted[:100]!r}, which no kept response has: send "
                        "the item itself.",
                        code="item_not_found",
                        param=f"input[{i}].id",
                    )
                items[i].CopyFrom(known[wanted])

    def open_seals(self, items: Sequence[InputItem], owner: str, path: str = "input") -> None:
        """Put what a client sends sealed into the open, for the prompt.

        Raises:
            InvalidRequest: something cannot be opened; `param` is its path under `path`.

        """
        for i, item in enumerate(items):
            self._open(item, owner, f"{path}[{i}]")

    async def read_files(self, items: Sequence[InputItem], path: str = "input") -> None:
        """Put the texts of files into their places; it may take seconds. Raises as `FileReader.read`."""
        await self._files.read(items, path)

    def _readable(self, items: Iterable[InputItem], owner: str, path: str) -> list[InputItem]:
        """Return kept items with their seals opened.

        A thought that is kept as text needs no key. One whose key is gone is left out, since no client could
        mend that; without a summary, though, there is nothing to go on from.
        """
        readable = []
        for item in items:
            if not item.reasoning.content:
                try:
                    self._open(item, owner, path)
                except InvalidRequest:
                    if not item.HasField("reasoning"):
                        raise
                    continue
            readable.append(item)
        return readable

    def _open(self, item: InputItem, owner: str, path: str) -> None:
        where = f"{path}.encrypted_content"
        if item.reasoning.encrypted_content:
            text = self._sealer.open(owner, "reasoning", item.reasoning.encrypted_content, where)
            del item.reasoning.content[:]
            item.reasoning.content.add(text=text)
        elif item.HasField("compaction"):
            sealed = item.compaction.encrypted_content
            item.compaction.encrypted_content = self._sealer.open(owner, "compaction", sealed, where)

    async def _kept_items(self, owner: str, response_id: str) -> dict[str, InputItem]:
        """Return the items of a response by their ids, none where it is not kept."""
        try:
            stored = await self._store.get(owner, response_id)
        except NotFound:
            return {}
        return {item_id(item): item for item in reversed(list(_items(stored)))}


def _items(stored: Stored) -> Iterator[InputItem]:
    yield from stored.input
    yield from as_later_input(stored.response.output)
