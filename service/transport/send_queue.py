"""Which call of a connection sends next."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from typing import Final

from service.transport.call import Call
from service.transport.http2 import Http2

_HEAD_BYTES: Final = 4096
"""What a list of header fields counts for among bytes of messages: so much longer does it take to make."""


class SendQueue:
    """Calls with something to send, the one first that has waited longest.

    A call sends one DATA frame at a time and goes to the end of the line: all get the same share of a window
    that is too small for them.
    """

    def __init__(self, http2: Http2) -> None:
        self._http2 = http2
        self._ready: OrderedDict[Call, None] = OrderedDict()
        # Those that wait for room in the connection's window. They go first once there is some: else a small
        # window would always begin with the same call. Who waits for its own is in no line: room in it comes
        # by the call's number.
        self._blocked: OrderedDict[Call, None] = OrderedDict()

    def __bool__(self) -> bool:
        """Whether a call can send."""
        return bool(self._ready) or self._may_unblock()

    def add(self, call: Call) -> None:
        """`call` may have something to send."""
        # One that is blocked keeps its place, however much it writes meanwhile.
        if call not in self._blocked:
            self._ready[call] = None

    def remove(self, call: Call) -> None:
        """`call` sends no more."""
        self._ready.pop(call, None)
        self._blocked.pop(call, None)

    def send(self, most_bytes: int) -> Iterator[Call]:
        """Have calls send about so much at the most; yield those that have sent all."""
        while most_bytes > 0:
            # Mostly nobody is blocked, and nothing is asked for it.
            line = self._blocked if self._blocked and self._may_unblock() else self._ready
            if not line:
                break
            call, _ = line.popitem(last=False)
            most_bytes -= self._send_messages(call)
            outgoing = call.outgoing
            if outgoing.trailers is not None and not outgoing.waiting_bytes:
                self._http2.answer(call.stream_id, outgoing.trailers)
                most_bytes -= _HEAD_BYTES
                yield call

    def _may_unblock(self) -> bool:
        return bool(self._blocked) and self._http2.outbound_flow_control_window > 0

    def _send_messages(self, call: Call) -> int:
        """Send the head of a response and a frame of its messages; return the bytes that they count for."""
        http2, outgoing = self._http2, call.outgoing
        head_bytes = 0
        if outgoing.head is not None:
            http2.send_headers(call.stream_id, outgoing.head)
            outgoing.head = None
            head_bytes = _HEAD_BYTES
        if not outgoing.waiting_bytes:
            return head_bytes
        room = http2.room(call.stream_id)
        data = outgoing.take(room) if room > 0 else b""
        if data:
            http2.send_message_data(call.stream_id, data)
        if outgoing.waiting_bytes:
            if http2.outbound_flow_control_window <= 0:
                self._blocked[call] = None
            elif data:
                self._ready[call] = None
        return head_bytes + len(data)
