"""The frames of a connection: how many a turn of the event loop takes, and how many may be for nothing.

A few bytes can cost much to take: calls that are refused or reset at once, PING, SETTINGS. What is beyond a
turn's work is left to later turns, so that other connections have theirs. To send that much is no fault: a
gateway does when all its clients leave at once. To send that many frames that bring nothing is one (RFC 9113,
10.5).
"""

from __future__ import annotations

from time import monotonic
from typing import Final

from h2.exceptions import DenialOfServiceError
from h2.frame_buffer import FrameBuffer
from hyperframe.frame import DataFrame, Frame, HeadersFrame, RstStreamFrame, SettingsFrame, WindowUpdateFrame

WORK_A_TURN: Final = 64
"""Frames that a turn takes. HEADERS count twice, and once more for every `_HEADERS_BYTES`: they have to be
uncompressed, and begin a call. SETTINGS end a turn, for they may concern every stream."""
_HEADERS_BYTES: Final = 256
IDLE_A_SECOND: Final = 10_000
"""Frames that bring nothing, before the connection is ended: everything but SETTINGS, which count for
`_SETTINGS`, and the kinds below. Some clients measure the connection with a PING for each answer that they
get, and set new windows a dozen times."""
_SETTINGS: Final = 100
_NEVER_IDLE: Final = frozenset((HeadersFrame, RstStreamFrame, WindowUpdateFrame))


class Frames(FrameBuffer):
    """h2's buffer of what has come, which gives a turn's frames and keeps the rest."""

    def __init__(self) -> None:
        super().__init__(server=True)
        self._work_left = 0
        self._idle = 0
        self._idle_since = monotonic()

    @property
    def is_behind(self) -> bool:
        """Whether more has come than this turn takes."""
        return self._work_left <= 0 and bool(self._data)

    @property
    def next_bytes(self) -> int:
        """The length of the next frame, by its header; 0 as long as that is not there."""
        return int.from_bytes(self._data[:3]) if len(self._data) >= 3 else 0

    def begin_turn(self) -> None:
        """Give as many frames as a turn takes."""
        self._work_left = WORK_A_TURN

    def __next__(self) -> Frame:
        """Return the next frame of this turn.

        Raises:
            ProtocolError: it is none.
            DenialOfServiceError: there are too many that bring nothing.
        """
        if self._work_left <= 0:
            raise StopIteration
        frame = super().__next__()
        kind = type(frame)
        if isinstance(frame, HeadersFrame):
            self._work_left -= 2 + len(frame.data) // _HEADERS_BYTES
        elif kind is SettingsFrame:
            self._work_left = 0
            self._count_idle(_SETTINGS)
        else:
            self._work_left -= 1
            if isinstance(frame, DataFrame):
                brings_nothing = not frame.data and "END_STREAM" not in frame.flags
            else:
                brings_nothing = kind not in _NEVER_IDLE
            if brings_nothing:
                self._count_idle(1)
        return frame

    def _count_idle(self, work: int) -> None:
        self._idle += work
        if self._idle > IDLE_A_SECOND:
            # The clock is looked at once in so many: what comes slowly never adds up.
            now = monotonic()
            if now - self._idle_since < 1.0:
                raise DenialOfServiceError("too many frames that bring nothing")
            self._idle, self._idle_since = 0, now
