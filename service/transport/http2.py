"""h2, with what serving calls needs changed."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from h2.config import H2Configuration
from h2.connection import (
    AllowedStreamIDs,
    ConnectionInputs,
    ConnectionState,
    H2Connection,
    H2ConnectionStateMachine,
)
from h2.errors import ErrorCodes
from h2.events import Event, StreamReset
from h2.exceptions import (
    DenialOfServiceError,
    FrameTooLargeError,
    ProtocolError,
    StreamClosedError,
    StreamIDTooLowError,
)
from h2.settings import SettingCodes, Settings
from h2.stream import H2Stream, StreamClosedBy, StreamState
from hpack import Encoder
from hpack.hpack import encode_integer
from hyperframe.frame import AltSvcFrame, Frame, HeadersFrame, PriorityFrame, RstStreamFrame

from service.transport.frames import Frames
from service.transport.headers import Field

if TYPE_CHECKING:
    from h2._typing import Buffer

STREAM_WINDOW_BYTES: Final = 1 << 20
"""Of a request's body that may be on its way, before the client must wait for news."""
CONNECTION_WINDOW_BYTES: Final = 16 << 20
"""Of all requests' bodies of a connection."""

_SWEPT_STREAMS: Final = 64
# HPACK: the table, which begins with 4,096 bytes, has 0 from now on; a field's name and value follow.
_NO_TABLE: Final = b"\x20"
_LITERAL: Final = b"\x00"
# Length in three bytes, type, flags, stream.
_FRAME_HEADER: Final = struct.Struct(">HBBBL")
_DATA: Final = 0
# Larger than h2 would have it, for large requests; not as large as clients would have it, for others' turns.
_MAX_FRAME_BYTES: Final = 1 << 16
_ADVERTISED_HEADER_LIST_BYTES: Final = 1 << 16
# Beyond this, h2 ends the connection: the compression of header fields is out of step then. Between the two
# only the call is refused. A gateway's own limit is often 60 KiB, counted without the 32 bytes a field.
_MAX_HEADER_LIST_BYTES: Final = 1 << 18


class _StateMachine(H2ConnectionStateMachine):
    """GOAWAY ends no connection.

    h2 takes it for the end of everything, and forbids to send another byte. RFC 9113 (6.8) has running
    streams go on behind it, and clients that shut down gracefully count on that, as this server does.
    """

    _transitions = {  # noqa: RUF012 - so it is in h2
        **H2ConnectionStateMachine._transitions,
        **{
            (state, goaway): (None, state)
            for state in (ConnectionState.IDLE, ConnectionState.SERVER_OPEN)
            for goaway in (ConnectionInputs.SEND_GOAWAY, ConnectionInputs.RECV_GOAWAY)
        },
    }


class _Stream(H2Stream):
    """A malformed request ends its stream, not the connection (RFC 9113, 8.1.1)."""

    def receive_headers(
        self, headers: Iterable[Any], end_stream: bool, header_encoding: bool | str | None
    ) -> tuple[list[Frame], list[Event]]:
        """Take a request's header fields or its trailers; reset the stream where it is no place for them.

        Raises:
            StreamClosedError: the client has ended its request.
        """
        try:
            return super().receive_headers(headers, end_stream, header_encoding)
        except StreamClosedError:
            raise
        except ProtocolError:
            # As by reset_stream, which knows no way out of the state that such an error leaves.
            self.state_machine.state = StreamState.CLOSED
            self.state_machine.stream_closed_by = StreamClosedBy.SEND_RST_STREAM
            code = ErrorCodes.PROTOCOL_ERROR
            reset = StreamReset(stream_id=self.stream_id, error_code=code, remote_reset=False)
            return [RstStreamFrame(self.stream_id, error_code=code)], [reset]

    def _initialize_content_length(self, headers: Iterable[Any]) -> None:
        """Do nothing: gRPC's messages have their own lengths, and a request may not end within one."""


class _Encoder(Encoder):
    """HPACK without a table: each field is written out (RFC 7541, 6.2.2).

    A response has few fields, most of them the same in every one. To look them up would cost more than the
    bytes, and a table would take memory of every connection.
    """

    def __init__(self) -> None:
        super().__init__()
        self._size_update = _NO_TABLE

    @property
    def header_table_size(self) -> int:
        """0, whatever the client allows: nothing has to be told when it allows less (RFC 7541, 4.2)."""
        return 0

    @header_table_size.setter
    def header_table_size(self, value: int) -> None:
        pass

    def encode(self, headers: Iterable[Any], huffman: bool = True) -> bytes:
        """Return the block of some fields, given as names and values in bytes; with no Huffman code."""
        size_update, self._size_update = self._size_update, b""
        return size_update + b"".join([_written_out(name, value) for name, value in headers])


@lru_cache(maxsize=64)
def _written_out(name: bytes, value: bytes) -> bytes:
    return b"".join([_LITERAL, encode_integer(len(name), 7), name, encode_integer(len(value), 7), value])


class Http2(H2Connection):
    """The server's side of a connection, its first frames ready to be sent."""

    # h2 remembers how streams were closed, 65,536 of them, for as long as the connection lives. It matters
    # only to clients that send trailers on a stream that is long gone, which gRPC has none of.
    MAX_CLOSED_STREAMS = 1024

    def __init__(self) -> None:
        super().__init__(
            H2Configuration(
                client_side=False,
                header_encoding=None,
                # headers.py checks them, stream by stream, and writes none that are wrong.
                validate_inbound_headers=False,
                normalize_inbound_headers=False,
                validate_outbound_headers=False,
                normalize_outbound_headers=False,
            )
        )
        self.state_machine = _StateMachine()
        # No MAX_CONCURRENT_STREAMS: clients open streams before they have read it, and h2 would end the
        # connection for it. How many calls there may be is said call by call, by the server.
        self.local_settings = Settings(
            client=False,
            initial_values={
                SettingCodes.INITIAL_WINDOW_SIZE: STREAM_WINDOW_BYTES,
                SettingCodes.MAX_FRAME_SIZE: _MAX_FRAME_BYTES,
                SettingCodes.MAX_HEADER_LIST_SIZE: _ADVERTISED_HEADER_LIST_BYTES,
            },
        )
        self.max_inbound_frame_size = _MAX_FRAME_BYTES
        self.incoming_buffer: Frames = Frames()
        self.encoder = _Encoder()
        self.decoder.max_header_list_size = _MAX_HEADER_LIST_BYTES
        self._sweep_at = _SWEPT_STREAMS
        self.initiate_connection()
        self.increment_flow_control_window(CONNECTION_WINDOW_BYTES - self.inbound_flow_control_window)

    def clear_outbound_data_buffer(self) -> None:
        """Do nothing. h2 calls it on GOAWAY, which leaves what is to be sent as it was: see above."""

    @property
    def open_inbound_streams(self) -> int:
        """Nothing: there is no limit to hold it against.

        h2 looks at every stream for it, and asks with every new one. What it does meanwhile, forgetting
        streams that are closed, is done when there are twice as many.
        """
        if len(self.streams) >= self._sweep_at:
            self._sweep_at = 2 * super().open_inbound_streams + _SWEPT_STREAMS
        return 0

    @property
    def is_behind(self) -> bool:
        """Whether more has come than `receive_data` has taken: it is to be called again, in another turn."""
        return self.incoming_buffer.is_behind

    def receive_data(self, data: Buffer) -> list[Event]:
        """Take what the client has sent, as much as fits into a turn, and return what it means.

        Raises:
            ProtocolError: the client does not keep to HTTP/2; what there is to say to it is ready to be sent.
        """
        self.incoming_buffer.begin_turn()
        events = super().receive_data(data)
        # h2 looks at a frame's length once all of it is there. It must not hold 16 MiB until then.
        if self.incoming_buffer.next_bytes > self.max_inbound_frame_size:
            self._terminate_connection(FrameTooLargeError.error_code)
            raise FrameTooLargeError("a frame is too large")
        return events

    def answer(self, stream_id: int, fields: list[Field]) -> None:
        """End a response with these fields, unless the stream is closed.

        h2 tells in events what has happened to a stream; more may have happened to it than has been told.
        """
        stream = self.streams.get(stream_id)
        if stream is None or stream.closed:
            return
        self.send_headers(stream_id, fields, end_stream=True)
        if not stream.closed:
            # The client has not ended its request and need not: RFC 9113, 8.1.
            self.reset_stream(stream_id, ErrorCodes.NO_ERROR)

    def reset(self, stream_id: int, code: ErrorCodes) -> None:
        """Reset a stream, unless it is closed."""
        stream = self.streams.get(stream_id)
        if stream is not None and not stream.closed:
            self.reset_stream(stream_id, code)

    def room(self, stream_id: int) -> int:
        """How many bytes the next DATA frame of a stream may have; 0 or less while there is no window."""
        return min(
            self.streams[stream_id].outbound_flow_control_window,
            self.outbound_flow_control_window,
            self.max_outbound_frame_size,
            _MAX_FRAME_BYTES,
        )

    def send_message_data(self, stream_id: int, data: bytes) -> None:
        """Send one DATA frame of an open response, with no more data than there is room for.

        It is h2's send_data without its objects and checks, which would cost more than all else of a flush.
        """
        self.streams[stream_id].outbound_flow_control_window -= len(data)
        self.outbound_flow_control_window -= len(data)
        self._data_to_send += _FRAME_HEADER.pack(len(data) >> 8, len(data) & 0xFF, _DATA, 0, stream_id)
        self._data_to_send += data

    def _begin_new_stream(self, stream_id: int, allowed_ids: AllowedStreamIDs) -> H2Stream:
        # As in h2, which names the class of its streams here; and to give them another one afterwards would
        # slow down every look at them.
        if stream_id <= self.highest_inbound_stream_id:
            raise StreamIDTooLowError(stream_id, self.highest_inbound_stream_id)
        if stream_id % 2 != allowed_ids.value:
            raise ProtocolError("a client's streams have odd numbers")
        self.highest_inbound_stream_id = stream_id
        self.streams[stream_id] = stream = _Stream(
            stream_id,
            config=self.config,
            inbound_window_size=self.local_settings.initial_window_size,
            outbound_window_size=self.remote_settings.initial_window_size,
        )
        stream.max_outbound_frame_size = self.max_outbound_frame_size
        return stream

    def _receive_headers_frame(self, frame: HeadersFrame) -> tuple[list[Frame], list[Event]]:
        # Unpacking them takes a millisecond for 5 KiB, and h2 takes any number from one frame and 64 more.
        if len(frame.data) > _MAX_HEADER_LIST_BYTES:
            raise DenialOfServiceError("the header fields are too many")
        frame.flags.discard("PRIORITY")
        return super()._receive_headers_frame(frame)

    def _receive_priority_frame(self, frame: HeadersFrame | PriorityFrame) -> tuple[list[Frame], list[Event]]:
        # It has no meaning any more (RFC 9113, 5.3.2).
        return [], []

    def _receive_alt_svc_frame(self, frame: AltSvcFrame) -> tuple[list[Frame], list[Event]]:
        # A server ignores it (RFC 7838, 4); h2 takes itself for a client by it.
        return [], []
