"""PDF documents as text, each read by a process that may use only so much."""

from __future__ import annotations

import asyncio
import hashlib
import sys
from pathlib import Path
from typing import Final

from service.errors import InvalidRequest
from service.files.pdf_text import Outcome
from service.lru_cache import LruCache
from service.places import Places

MAX_PDF_PAGES: Final = 500
MAX_PDF_CPU_S: Final = 20
"""Most seconds that a document's reading may take."""
MAX_PDF_MEMORY_BYTES: Final = 2**30
MAX_FILE_CHARACTERS: Final = 2_000_000
"""Most characters of a file's text: more than fits a context."""

_PROGRAM: Final = Path(__file__).with_name("pdf_text.py")
MAX_AT_ONCE: Final = 2
"""Documents that are read at once."""
MAX_WAITING: Final = 32
"""Documents that may wait for a reader."""
_MAX_KEPT_BYTES: Final = 8_000_000
"""Memory of the texts that are kept: a conversation brings its documents again with every turn."""
# The processor's seconds are limited by the kernel; a busy machine may need several to give one.
_PATIENCE: Final = 4


class PdfReader:
    """Reads documents, a few at once, and remembers the texts of the last ones."""

    def __init__(self, *, max_cpu_s: int = MAX_PDF_CPU_S) -> None:
        """`max_cpu_s`: seconds of the processor that a document may take."""
        self._max_cpu_s = max_cpu_s
        self._places = Places(MAX_AT_ONCE, MAX_WAITING, "documents wait to be read", retry_after_s=5)
        self._texts: LruCache[bytes, str] = LruCache(_MAX_KEPT_BYTES)

    async def text(self, document: bytes, path: str) -> str:
        """Return a document's text, page by page.

        Raises:
            InvalidRequest: it cannot be read, or not within the limits; `param` is `path`.
            Overloaded: too many documents wait.

        """
        key = hashlib.sha256(document).digest()
        if (known := self._texts.get(key)) is not None:
            return known
        async with self._places:
            # Somebody else may have had it read meanwhile.
            if (known := self._texts.get(key)) is not None:
                return known
            text = await self._read(document, path)
        self._texts.put(key, text, sys.getsizeof(text))
        return text

    async def _read(self, document: bytes, path: str) -> str:
        limits = (MAX_PDF_PAGES, MAX_FILE_CHARACTERS, self._max_cpu_s, MAX_PDF_MEMORY_BYTES)
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            str(_PROGRAM),
            *map(str, limits),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
        )
        try:
            async with asyncio.timeout(self._max_cpu_s * _PATIENCE):
                output, _ = await process.communicate(document)
        except TimeoutError:
            output = b""
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        match process.returncode:
            case Outcome.READ:
                return output.decode()
            case Outcome.TOO_MANY_PAGES:
                fault = f"may have {MAX_PDF_PAGES} pages at most: send less of it"
            case Outcome.TOO_LONG:
                fault = f"may have {MAX_FILE_CHARACTERS} characters at most: send less of it"
            case Outcome.UNREADABLE:
                fault = "is not a PDF document that can be read: send its text"
            case _:
                fault = f"is a PDF document that cannot be read within {self._max_cpu_s} s: send its text"
        raise InvalidRequest(f"{path} {fault}.", param=path)
