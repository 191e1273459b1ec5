"""How many tokens make a flush: a fixed number, or one that follows the load.

Every flush costs the server about the same, however many tokens it holds. When the event loop falls behind,
larger flushes are what lets it catch up; when it is idle, small ones give the smoothest stream. The rules:

  1. Lag is by how much the loop is late for a timer, looked at every `LOOK_S`.
  2. Lag above the target doubles the interval, at once.
  3. Lag below a quarter of the target, `CALM_LOOKS` times in a row, halves it: it grows fast and shrinks
     slowly, so that it does not swing.
  4. It stays between the bounds.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Final

LOOK_S: Final = 0.05
"""Seconds between two looks at the loop."""
CALM_LOOKS: Final = 20
"""Looks without lag after which the interval shrinks."""
_CALM_SHARE: Final = 0.25


class Interval:
    """A number of tokens that is read at every chunk.

    Attributes:
        tokens: tokens to a flush, now.

    """

    __slots__ = ("tokens",)

    def __init__(self, tokens: int) -> None:
        self.tokens = tokens


@dataclass(frozen=True, slots=True)
class AdaptiveBounds:
    """What an adaptive interval keeps to."""

    min_tokens: int
    max_tokens: int
    max_lag_s: float
    """The event loop's lag that the server is to stay under."""


class AdaptiveInterval(Interval):
    """An interval that follows the load; see the module's rules. Sans-IO: `watch_loop` tells it the lag."""

    __slots__ = ("_bounds", "_calm_looks")

    def __init__(self, bounds: AdaptiveBounds) -> None:
        super().__init__(bounds.min_tokens)
        self._bounds = bounds
        self._calm_looks = 0

    def observe(self, lag_s: float) -> None:
        """Take one look's lag, in seconds."""
        bounds = self._bounds
        if lag_s > bounds.max_lag_s:
            self.tokens = min(self.tokens * 2, bounds.max_tokens)
            self._calm_looks = 0
        elif lag_s < bounds.max_lag_s * _CALM_SHARE:
            self._calm_looks += 1
            if self._calm_looks >= CALM_LOOKS:
                self.tokens = max(self.tokens // 2, bounds.min_tokens)
                self._calm_looks = 0
        else:
            self._calm_looks = 0


async def watch_loop(interval: AdaptiveInterval) -> None:
    """Tell the interval the running loop's lag, until cancelled."""
    loop = asyncio.get_running_loop()
    while True:
        due_at = loop.time() + LOOK_S
        await asyncio.sleep(LOOK_S)
        interval.observe(loop.time() - due_at)
