"""The values that were used last, as many as a limit of memory allows. Threads may share them."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from threading import Lock
from typing import Generic, TypeVar

_K = TypeVar("_K", bound=Hashable)
_V = TypeVar("_V")


class LruCache(Generic[_K, _V]):
    """Keeps values by key. The ones that were not used for longest are forgotten first.

    Attributes:
        kept_bytes: memory of what is kept, as it was told.

    """

    def __init__(self, max_bytes: int) -> None:
        """`max_bytes`: most memory of what is kept."""
        self.kept_bytes = 0
        self._max_bytes = max_bytes
        self._values: OrderedDict[_K, tuple[_V, int]] = OrderedDict()
        self._lock = Lock()

    def get(self, key: _K) -> _V | None:
        """Return a value, None where it is not kept."""
        with self._lock:
            if key not in self._values:
                return None
            self._values.move_to_end(key)
            return self._values[key][0]

    def put(self, key: _K, value: _V, size_bytes: int) -> None:
        """Keep a value that takes `size_bytes`; one that is larger than all that may be kept is not."""
        with self._lock:
            self._forget(key)
            self._values[key] = (value, size_bytes)
            self.kept_bytes += size_bytes
            while self.kept_bytes > self._max_bytes:
                self._forget(next(iter(self._values)))

    def _forget(self, key: _K) -> None:
        _, size_bytes = self._values.pop(key, (None, 0))
        self.kept_bytes -= size_bytes
