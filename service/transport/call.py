"""One RPC, as servicers see it: grpc.aio's ServicerContext."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Sequence
from typing import Any, Final, NoReturn, Protocol, TypeAlias

import grpc

from service.transport.context import PlainContext
from service.transport.faults import Code, Refused
from service.transport.headers import Field, Metadata, RequestHead, response_head, to_send, trailers
from service.transport.incoming import Incoming
from service.transport.outgoing import HELD_BYTES, Outgoing

GivenMetadata: TypeAlias = "Iterable[tuple[str, str | bytes]]"

_STATUS_OF: Final = {status.value[0]: status for status in grpc.StatusCode}


class Link(Protocol):
    """What a call knows of its connection."""

    peer: str
    """The client's address, as gRPC writes it: `ipv4:127.0.0.1:1234`."""

    def ready(self, call: Call) -> None:
        """`call` has something to send."""

    def unwinding(self, handler: asyncio.Future[None]) -> None:
        """A handler has been cancelled; `handler` is done when it has let go of everything."""

    def abandon(self, call: Call) -> None:
        """What `call` still has to send is dropped, and the client told so."""


class Call(PlainContext):
    """One RPC. It has ended once its status stands; what is written before that is still sent."""

    def __init__(
        self, link: Link, stream_id: int, head: RequestHead, incoming: Incoming, max_stall_s: float
    ) -> None:
        """`max_stall_s`: seconds that the client may leave the response unread."""
        self.stream_id = stream_id
        self.path = head.path
        self.incoming = incoming
        self.outgoing = Outgoing()
        self._link = link
        self._max_stall_s = max_stall_s
        self._metadata = head.metadata
        self._deserialize: Callable[[bytes], Any] | None = None
        self._serialize: Callable[[Any], bytes] | None = None
        self._is_handled = False
        self._has_begun = False
        self._has_ended = False
        self._was_cut = False
        self._code = Code.OK.value
        self._details = ""
        self._trailing: Metadata = ()
        self._trailing_fields: Sequence[Field] = ()
        self._callbacks: list[Callable[[Any], None]] = []
        self._task: asyncio.Task[None] | None = None
        self._unwinding: asyncio.Future[None] | None = None
        self._loop = asyncio.get_running_loop()
        self._deadline: asyncio.TimerHandle | None = None
        if head.timeout_s is not None:
            self._deadline = self._loop.call_later(head.timeout_s, self._expire)

    # For the connection and the server.

    def run(self, handling: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Let a task handle the call, and return it. The call cancels it when it is cut."""
        self._task = self._loop.create_task(handling)
        return self._task

    def use(
        self, deserialize: Callable[[bytes], Any] | None, serialize: Callable[[Any], bytes] | None
    ) -> None:
        """A handler takes over, with what turns bytes into requests and responses into bytes, if not None."""
        self._is_handled = True
        self._deserialize = deserialize
        self._serialize = serialize

    def end(self, code: int, details: str) -> None:
        """End the call with a status, unless it has ended: the first status stands."""
        if self._has_ended:
            return
        self._code, self._details = code, details
        last = trailers(code, details, self._trailing_fields)
        # A call that fails before its first message is answered with one list of fields: "Trailers-Only".
        self.outgoing.trailers = last if self._has_begun else [*response_head(), *last]
        self._over()
        self._link.ready(self)

    def end_as_said(self) -> None:
        """End the call as the handler has set code and details, or well."""
        self.end(self._code, self._details)

    def cut(self, code: int, details: str) -> None:
        """End the call from outside, and cancel its handler, unless it has ended."""
        if not self._has_ended:
            self._was_cut = True
            self.end(code, details)
            self._cancel()

    def lose(self) -> None:
        """The client is gone, or wants no more: drop what is to be sent, and cancel the handler."""
        self.outgoing.complete()
        if not self._has_ended:
            self._was_cut = True
            self._code = Code.CANCELLED.value
            self._over()
            self._cancel()

    def unwound(self) -> None:
        """Say that the handler has ended."""
        if self._unwinding is not None and not self._unwinding.done():
            self._unwinding.set_result(None)

    async def sent(self) -> None:
        """Wait until the client has been sent all of an ended call, or has stalled."""
        # Mostly all of it goes with this turn of the loop, and no stall need be looked for.
        await asyncio.sleep(0)
        if not await self.outgoing.completion(self._max_stall_s):
            self._link.abandon(self)

    def _cancel(self) -> None:
        if self._task is None:
            return
        self._task.cancel()
        if self._is_handled:
            self._unwinding = self._loop.create_future()
            self._link.unwinding(self._unwinding)

    def _expire(self) -> None:
        self.cut(Code.DEADLINE_EXCEEDED, "The time that the client has set for the call is over.")

    def _over(self) -> None:
        self._has_ended = True
        self.incoming.discard()
        if self._deadline is not None:
            self._deadline.cancel()
        for callback in self._callbacks:
            self._loop.call_soon(callback, self)

    # Messages.

    async def write(self, message: Any) -> None:
        """Send a message with this turn of the event loop.

        Returns at once while little waits to be sent; waits while the client leaves much unread.

        Raises:
            grpc.aio.UsageError: the call has ended.
            Refused: the client has stalled.
        """
        if self.outgoing.waiting_bytes > HELD_BYTES and not await self.outgoing.room(self._max_stall_s):
            raise Refused(
                Code.RESOURCE_EXHAUSTED,
                f"The client has read nothing for {self._max_stall_s:g} s: read faster, or ask for less.",
            )
        if self._has_ended:
            raise grpc.aio.UsageError("The call has ended.")
        data = self._serialize(message) if self._serialize is not None else message
        self._begin(())
        self.outgoing.add(data)
        self._link.ready(self)

    async def read(self) -> Any:
        """Wait for the next request; grpc.aio.EOF behind the last.

        Raises:
            Refused: it cannot be uncompressed or parsed.
        """
        data = await self.incoming.read()
        return grpc.aio.EOF if data is None else self._parsed(data)

    async def requests(self) -> AsyncIterator[Any]:
        """Yield every request of a streaming call."""
        while (request := await self.read()) is not grpc.aio.EOF:
            yield request

    async def only_request(self) -> Any:
        """Wait for the request of a unary call.

        Raises:
            Refused: there is not one message, or it does not come, or it cannot be uncompressed or parsed.
        """
        return self._parsed(await self.incoming.only())

    def _parsed(self, data: bytes) -> Any:
        if self._deserialize is None:
            return data
        try:
            return self._deserialize(data)
        except Exception as error:
            # doc/statuscodes.md has INTERNAL; but behind a gateway, a path that is no UTF-8 comes to this.
            raise Refused(Code.INVALID_ARGUMENT, "The request message cannot be parsed.") from error

    # Metadata and status.

    async def send_initial_metadata(self, initial_metadata: GivenMetadata) -> None:
        """Send metadata ahead of the first message. Once, and before it.

        Raises:
            grpc.aio.UsageError: it has been sent, or the call has ended.
            ValueError: it cannot be sent.
        """
        if self._has_begun or self._has_ended:
            raise grpc.aio.UsageError("The initial metadata has been sent.")
        self._begin(to_send(initial_metadata))
        self._link.ready(self)

    def set_trailing_metadata(self, trailing_metadata: GivenMetadata) -> None:
        """Set what goes with the status.

        Raises:
            ValueError: it cannot be sent.
        """
        self._trailing = tuple((name, value) for name, value in trailing_metadata)
        self._trailing_fields = to_send(self._trailing)

    async def abort(
        self, code: grpc.StatusCode, details: str = "", trailing_metadata: GivenMetadata = ()
    ) -> NoReturn:
        """End the call with a status, and leave the handler by raising grpc.aio.AbortError."""
        if code is grpc.StatusCode.OK:
            raise grpc.aio.UsageError("A call is not aborted with OK.")
        if given := tuple(trailing_metadata):
            self.set_trailing_metadata(given)
        self.end(code.value[0], details)
        raise grpc.aio.AbortError

    def set_code(self, code: grpc.StatusCode) -> None:
        """Set the status that the call ends with when its handler returns."""
        if not self._has_ended:
            self._code = code.value[0]

    def set_details(self, details: str) -> None:
        """Set the message of that status."""
        if not self._has_ended:
            self._details = details

    def invocation_metadata(self) -> Any:
        """Return the client's metadata: pairs of a name and a str, or bytes where the name ends in -bin."""
        return self._metadata

    def trailing_metadata(self) -> Any:
        """Return what set_trailing_metadata was given."""
        return self._trailing

    def code(self) -> grpc.StatusCode:
        """Return the status as it stands."""
        return _STATUS_OF[self._code]

    def details(self) -> str:
        """Return its message."""
        return self._details

    # The client and the call's life.

    def peer(self) -> str:
        """Return the client's address: that of the gateway where there is one."""
        return self._link.peer

    def time_remaining(self) -> float:
        """Return the seconds until the deadline; infinity where the client has set none."""
        return float("inf") if self._deadline is None else max(0.0, self._deadline.when() - self._loop.time())

    def add_done_callback(self, callback: Callable[[Any], None]) -> None:
        """Have `callback` called with the call when it has ended."""
        self._callbacks.append(callback)

    def cancelled(self) -> bool:
        """Whether the call was ended from outside its handler: by the client, its deadline, or the server."""
        return self._was_cut

    def done(self) -> bool:
        """Whether the call has ended."""
        return self._has_ended

    def _begin(self, metadata: Sequence[Field]) -> None:
        if not self._has_begun:
            self._has_begun = True
            self.outgoing.head = response_head(metadata)
