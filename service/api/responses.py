"""Responses: created, continued, kept, and asked for again. Everything here belongs to an owner."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Final

from openresponses.v1.event_pb2 import ResponseStreamEvent
from openresponses.v1.item_pb2 import InputItem
from openresponses.v1.response_pb2 import Response
from openresponses.v1.service_pb2 import CreateResponseRequest
from openresponses.v1.stored_pb2 import DeletedResponse, InputTokenCount, ItemList, Page

from service.api.background import Background
from service.api.context import ContextReader
from service.api.paging import bounds_of, item_list, page_of
from service.api.sealing import Sealer
from service.errors import EngineFailed, InvalidRequest, Unavailable
from service.items import as_items, check_unique, with_ids
from service.long_work import in_thread_if_long, request_bytes
from service.run.drain import Drain
from service.run.opening import conversation_id, is_kept
from service.run.preparation import Preparation
from service.run.run import ResponseRunner, Run
from service.store.ending import ended_response
from service.store.responses import ResponseStore

MAX_INPUT_ITEMS: Final = 10_000
"""Most items of a request's input, as many as a conversation holds; each takes tokens of the context, too."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Prepared:
    """A request, ready to run."""

    run: Run
    kept_input: Sequence[InputItem] = ()
    """What is new in the input, as it is kept."""


class Responses:
    """Creates responses and looks after those that are kept. `new_id` gives unique alphanumeric texts."""

    def __init__(
        self,
        runner: ResponseRunner,
        store: ResponseStore,
        context: ContextReader,
        background: Background,
        sealer: Sealer,
        drain: Drain,
        preparation: Preparation,
        new_id: Callable[[], str],
    ) -> None:
        self._runner = runner
        self._store = store
        self._context = context
        self._background = background
        self._sealer = sealer
        self._drain = drain
        self._preparation = preparation
        self._new_id = new_id

    async def stream(
        self, request: CreateResponseRequest, owner: str, own_items: int = 0
    ) -> AsyncGenerator[list[ResponseStreamEvent], None]:
        """Yield a new response's events in batches, as `ResponseRunner.run` does.

        A response in the background goes on when the generator is closed; any other is aborted. `own_items`
        of the input's items are not the caller's.

        Raises:
            ServiceError: before the first event only.

        """
        # Counted until it is kept, too; the runner counts those in the background.
        with self._drain.response():
            prepared = await self._prepare(request, owner, own_items)
            if request.background:
                response = await self._start(prepared, owner)
                async with aclosing(self._background.follow(owner, response, -1)) as batches:
                    async for events in batches:
                        yield events
                return
            async with aclosing(self._runner.run(prepared.run)) as batches:
                async for events in batches:
                    if events and (ended := ended_response(events[-1])) and ended.store:
                        ended.store = await self._save(owner, ended, prepared)
                    yield events

    async def create(self, request: CreateResponseRequest, owner: str, own_items: int = 0) -> Response:
        """Run a response to its end and return it; one in the background is returned at once, queued.

        Raises:
            EngineFailed: the model failed on the way.
            Unavailable: the server was stopped on the way, or is stopping.
            ServiceError: as `stream`.

        """
        if request.background:
            with self._drain.response():
                return await self._start(await self._prepare(request, owner), owner)
        events: list[ResponseStreamEvent] = []
        async with aclosing(self.stream(request, owner, own_items)) as batches:
            async for batch in batches:
                events = batch or events
        response = ended_response(events[-1])
        assert response is not None
        if events[-1].HasField("failed"):
            message = f"{response.error.message} ({response.id})"
            raise Unavailable(message) if self._drain.is_over else EngineFailed(message)
        return response

    async def get(self, response_id: str, owner: str) -> Response:
        """Return a kept response as it stands.

        Raises:
            NotFound: there is none of that id that belongs to `owner`.

        """
        return (await self._store.get(owner, response_id)).response

    async def resume(
        self, response_id: str, owner: str, after: int
    ) -> AsyncGenerator[list[ResponseStreamEvent], None]:
        """Yield the events behind number `after` of a response that was made in the background.

        Raises:
            NotFound: there is none of that id that belongs to `owner`.
            InvalidRequest: it was not made in the background.

        """
        stored = await self._store.get(owner, response_id)
        if not stored.background:
            raise InvalidRequest(
                "Only a response that was created with background: true can be streamed again; get this one "
                "without stream.",
                param="stream",
            )
        with self._drain.counted():
            async with aclosing(self._background.follow(owner, stored.response, after)) as batches:
                async for events in batches:
                    yield events

    async def cancel(self, response_id: str, owner: str) -> Response:
        """End a response that is made in the background, and return it. Raises as `resume`."""
        return await self._background.cancel(owner, response_id)

    async def delete(self, response_id: str, owner: str) -> DeletedResponse:
        """Forget a response; one that is still made is ended first. Raises as `get`."""
        if await self._store.is_background(owner, response_id):
            await self._background.cancel(owner, response_id)
        await self._store.delete(owner, response_id)
        return DeletedResponse(id=response_id, object="response", deleted=True)

    async def input_items(self, response_id: str, owner: str, page: Page) -> ItemList:
        """Return a page of the input that was new in a response's request.

        Raises:
            InvalidRequest: limit or order are wrong; `param` names the field.
            NotFound: as `get`, and where `after` or `before` is no item of the input.

        """
        bounds = bounds_of(page)
        data, has_more = page_of(await self._store.input(owner, response_id), bounds)
        return item_list(data, has_more=has_more)

    async def count_tokens(self, request: CreateResponseRequest, owner: str) -> InputTokenCount:
        """Return how many tokens the prompt of a request has.

        Raises:
            ServiceError: the request is refused, as `stream` would.

        """
        with self._drain.response():
            prepared = await self._prepare(request, owner)
            tokens = await self._runner.count_tokens(prepared.run)
        return InputTokenCount(object="response.input_tokens", input_tokens=tokens)

    async def _prepare(self, request: CreateResponseRequest, owner: str, own_items: int = 0) -> _Prepared:
        if len(request.input.items.items) - own_items > MAX_INPUT_ITEMS:
            raise InvalidRequest(f"input may hold {MAX_INPUT_ITEMS} items at most.", param="input")
        checked = self._runner.check(request)
        unique = self._new_id()
        async with self._preparation:
            size = request_bytes(request)
            await in_thread_if_long(size, lambda: check_unique(as_items(request.input)))
            history = await self._context.history(request, owner)
            await self._context.resolve_references(request, owner)
            kept = await in_thread_if_long(size, self._take_input, request, owner, unique)
        # Not in a place of that kind: documents take seconds, and have places of their own.
        await self._context.read_files(
            history, "conversation" if conversation_id(request) else "previous_response_id"
        )
        await self._context.read_files(request.input.items.items)
        run = Run(
            request,
            f"resp_{unique}",
            history=history,
            seal=lambda text: self._sealer.seal(owner, "reasoning", text),
            checked=checked,
        )
        return _Prepared(run, kept)

    def _take_input(self, request: CreateResponseRequest, owner: str, unique: str) -> list[InputItem]:
        """Return a request's input as it is kept, where it is; and open the seals in the request."""
        kept = with_ids(as_items(request.input), unique) if is_kept(request) else []
        self._context.open_seals(request.input.items.items, owner)
        return kept

    async def _start(self, prepared: _Prepared, owner: str) -> Response:
        return await self._background.start(owner, self._runner.run(prepared.run), prepared.kept_input)

    async def _save(self, owner: str, response: Response, prepared: _Prepared) -> bool:
        try:
            return await self._store.save(owner, response, prepared.kept_input)
        except Exception:
            # Whatever it is, the client gets its answer, and reads in it that it is not kept.
            _log.exception("response %s cannot be kept", response.id)
            return False
