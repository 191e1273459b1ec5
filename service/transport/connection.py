"""One TCP connection: bytes to HTTP/2 events to calls, and calls to bytes.

All that its calls have to send leaves with one write a turn of the event loop. A call says that it is ready;
the first to say so has the connection flush once the others have had their turn.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Collection, Iterable
from functools import partial
from itertools import islice
from typing import Final, Protocol, cast

from h2 import events
from h2.errors import ErrorCodes
from h2.exceptions import ProtocolError
from h2.settings import SettingCodes

from service.transport.call import Call
from service.transport.closing import Closing
from service.transport.faults import Malformed, NotGrpc, Refused
from service.transport.framing import MessageReader
from service.transport.headers import read_request, response_head, trailers
from service.transport.http2 import Http2
from service.transport.incoming import Incoming
from service.transport.send_queue import SendQueue

_log = logging.getLogger(__name__)

_UNSENT_BYTES: Final = 1 << 18
"""What the transport may hold before responses are held back; a flush makes no more than that of them."""
_UNSENT_ANSWERS_BYTES: Final = 1 << 20
"""What it may hold before nothing is read any more: a client that asks and asks, and never reads."""
_AWAITED_HANDLERS: Final = 64
"""Cancelled handlers that a call waits for at the most."""
_PREFACE_S: Final = 30.0
"""Seconds that a client may take to say that it speaks HTTP/2."""


class Host(Protocol):
    """What a connection knows of its server."""

    max_request_bytes: int
    max_stall_s: float

    def joined(self, connection: Connection) -> None:
        """A connection is made."""

    def left(self, connection: Connection) -> None:
        """A connection is lost."""

    def admit(self, method: str, others: int) -> None:
        """Return while there may be one call more; its connection has so many others.

        Raises:
            Refused: there may not.
        """

    def start_call(self, call: Call, cancelled: Collection[asyncio.Future[None]]) -> None:
        """Handle a call, behind handlers that have been cancelled."""


class Connection(asyncio.Protocol):
    """One client's connection."""

    def __init__(self, host: Host) -> None:
        self.peer = ""
        self._host = host
        self._loop = asyncio.get_running_loop()
        self._http2 = Http2()
        self._calls: dict[int, Call] = {}
        self._queue = SendQueue(self._http2)
        self._unwinding: set[asyncio.Future[None]] = set()
        self._flush_is_due = False
        self._may_write = True
        self._is_paused = False
        self._is_leaving = False
        self._closing: Closing | None = None

    # asyncio's side.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Greet the client."""
        # What a TCP server makes; uvloop's is none by its class.
        self._transport = transport = cast("asyncio.Transport", transport)
        transport.set_write_buffer_limits(_UNSENT_BYTES)
        kernel = transport.get_extra_info("socket")
        kernel.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        kernel.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        # None where the client is gone already.
        host, port = (transport.get_extra_info("peername") or ("", 0))[:2]
        self.peer = f"ipv6:[{host}]:{port}" if ":" in host else f"ipv4:{host}:{port}"
        self._preface_timer = self._loop.call_later(_PREFACE_S, transport.abort)
        self._host.joined(self)
        self._schedule_flush()

    def connection_lost(self, exc: Exception | None) -> None:
        """Cancel what ran for the client."""
        self._is_leaving = True
        self._preface_timer.cancel()
        if self._closing is not None:
            self._closing.stop()
        self._lose_calls()
        self._host.left(self)

    def data_received(self, data: bytes) -> None:
        """Take what the client sends, as much of it as a turn takes; flushes go on with the rest.

        Whatever is wrong with it harms this connection only.
        """
        if self._has_said_all():
            return
        try:
            found = self._http2.receive_data(data)
        except ProtocolError as error:
            _log.debug("%s breaks HTTP/2: %s", self.peer, error)
            # What h2 has to say to that, and nothing else.
            self._transport.write(self._http2.data_to_send())
            self._lose_calls()
            self._close()
            return
        except Exception:
            self._fail()
            return
        try:
            for event in found:
                self._take(event)
        except Exception:
            self._fail()
        else:
            if self._http2.is_behind:
                self._pause()
            self._schedule_flush()

    def pause_writing(self) -> None:
        """The client reads slower than is written."""
        self._may_write = False

    def resume_writing(self) -> None:
        """It has caught up."""
        self._may_write = True
        self._schedule_flush()

    # The server's side.

    def leave(self) -> None:
        """Have the client open no more calls, and close once those that run have ended."""
        if not self._is_leaving:
            self._is_leaving = True
            self._http2.close_connection()
            self._schedule_flush()

    def calls(self) -> Iterable[Call]:
        """Return the calls that have something to do or to send."""
        return tuple(self._calls.values())

    def abort(self) -> None:
        """Close the connection without another word."""
        self._transport.abort()

    # The calls' side.

    def ready(self, call: Call) -> None:
        """`call` has something to send: it goes with this turn."""
        self._queue.add(call)
        self._schedule_flush()

    def unwinding(self, handler: asyncio.Future[None]) -> None:
        """A call's handler has been cancelled: later calls wait for it."""
        self._unwinding.add(handler)
        handler.add_done_callback(self._unwinding.discard)

    def abandon(self, call: Call) -> None:
        """Drop what `call` still has to send."""
        if call.stream_id in self._calls:
            self._http2.reset(call.stream_id, ErrorCodes.CANCEL)
            self._forget(call)
            self._schedule_flush()

    # What clients send.

    def _take(self, event: events.Event) -> None:
        match event:
            case events.WindowUpdated(stream_id=stream_id) if stream_id:
                # Of the connection's window the next flush makes use.
                self._wake(stream_id)
            case events.DataReceived():
                self._feed(event)
            case events.RequestReceived():
                self._open(event)
            case events.StreamEnded(stream_id=stream_id) if call := self._calls.get(stream_id):
                try:
                    call.incoming.end()
                except Refused as refused:
                    call.cut(refused.code, refused.message)
            case events.StreamReset(stream_id=stream_id) if call := self._calls.get(stream_id):
                self._forget(call)
                call.lose()
            case events.RemoteSettingsChanged(changed_settings=changed):
                self._preface_timer.cancel()
                if SettingCodes.INITIAL_WINDOW_SIZE in changed:
                    for stream_id in self._calls:
                        self._wake(stream_id)
            case _:
                # The rest h2 answers by itself. A client's GOAWAY needs nothing: its calls go on.
                pass

    def _open(self, event: events.RequestReceived) -> None:
        stream_id = event.stream_id
        if self._is_leaving:
            # The client opened it before it knew; by this it knows that nothing was done for it.
            self._http2.reset(stream_id, ErrorCodes.REFUSED_STREAM)
            return
        try:
            head = read_request(event.headers)
            self._host.admit(head.path, len(self._calls))
            reader = MessageReader(self._host.max_request_bytes, head.encoding)
        except Malformed as fault:
            _log.debug("a request of %s is malformed: %s", self.peer, fault)
            self._http2.reset(stream_id, ErrorCodes.PROTOCOL_ERROR)
        except NotGrpc as fault:
            self._http2.answer(stream_id, [(b":status", b"%d" % fault.http_status)])
        except Refused as refused:
            self._http2.answer(stream_id, [*response_head(), *trailers(refused.code, refused.message)])
        else:
            incoming = Incoming(reader, partial(self._http2.acknowledge_received_data, stream_id=stream_id))
            self._calls[stream_id] = call = Call(self, stream_id, head, incoming, self._host.max_stall_s)
            self._host.start_call(call, tuple(islice(self._unwinding, _AWAITED_HANDLERS)))

    def _feed(self, event: events.DataReceived) -> None:
        window_bytes = event.flow_controlled_length or 0
        call = self._calls.get(event.stream_id)
        if call is None:
            self._http2.acknowledge_received_data(window_bytes, event.stream_id)
            return
        try:
            call.incoming.feed(event.data or b"", window_bytes)
        except Refused as refused:
            call.cut(refused.code, refused.message)

    def _wake(self, stream_id: int | None) -> None:
        call = self._calls.get(stream_id or 0)
        if call is not None and call.outgoing.waiting_bytes:
            self._queue.add(call)

    # What is sent.

    def _fail(self) -> None:
        """Give the connection up, for an error of ours or of h2's. Called where it is caught."""
        _log.exception("the connection of %s failed", self.peer)
        self._transport.abort()

    def _schedule_flush(self) -> None:
        if not self._flush_is_due:
            self._flush_is_due = True
            self._loop.call_soon(self._flush)

    def _flush(self) -> None:
        self._flush_is_due = False
        transport = self._transport
        if self._has_said_all():
            return
        try:
            if self._may_write:
                for call in self._queue.send(_UNSENT_BYTES):
                    self._forget(call)
                if self._queue:
                    self._schedule_flush()
        except Exception:
            self._fail()
            return
        if data := self._http2.data_to_send():
            transport.write(data)
            if transport.get_write_buffer_size() > _UNSENT_ANSWERS_BYTES:
                self._pause()
        if self._is_leaving and not self._calls:
            self._close()
        elif self._is_paused and transport.get_write_buffer_size() <= _UNSENT_ANSWERS_BYTES:
            self._go_on()

    def _pause(self) -> None:
        """Read no more until flushes have gone on with what has come."""
        if not self._is_paused:
            self._is_paused = True
            self._transport.pause_reading()

    def _go_on(self) -> None:
        """Take what has been left to this turn; read on where that was all."""
        if self._http2.is_behind:
            self.data_received(b"")
        if not self._http2.is_behind and not self._transport.is_closing():
            self._is_paused = False
            self._transport.resume_reading()

    def _forget(self, call: Call) -> None:
        del self._calls[call.stream_id]
        self._queue.remove(call)
        call.outgoing.complete()

    def _lose_calls(self) -> None:
        for call in self.calls():
            self._forget(call)
            call.lose()

    def _close(self) -> None:
        self._closing = Closing(self._transport)
        if self._is_paused:
            # Nothing is taken any more; but the client's end has to be seen.
            self._transport.resume_reading()

    def _has_said_all(self) -> bool:
        return self._closing is not None or self._transport.is_closing()
