"""Preparing requests, so many at once: what is done for them before an engine admits or refuses them.

History is read, schemas are compiled, prompts are rendered: work that takes long, and memory. Documents take
longer, and have places of their own, in `files/pdf_reader.py`.
"""

from __future__ import annotations

from typing import Final

from service.places import Places

MAX_AT_ONCE: Final = 8
"""Requests that are prepared at once; threads beyond would only wait for one another."""
MAX_WAITING: Final = 1024
"""Requests that may wait for that; beyond, they are refused. Most are prepared in a millisecond."""


class Preparation(Places):
    """Places for requests that are prepared."""

    def __init__(self, *, max_at_once: int = MAX_AT_ONCE, max_waiting: int = MAX_WAITING) -> None:
        super().__init__(max_at_once, max_waiting, "requests wait to be read")
