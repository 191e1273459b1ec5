"""A PDF document on standard input, its text on standard output: a program of its own.

Documents are programs, too, and a small one can take hours to draw. So each is read in a process that may use
so much time and memory, and no more; when it breaks, nothing else does. It imports nothing of the service.

    python pdf_text.py MAX_PAGES MAX_CHARACTERS MAX_CPU_S MAX_MEMORY_BYTES

The exit status tells what came of it: see `Outcome`.
"""

from __future__ import annotations

import io
import logging
import resource
import sys
from enum import IntEnum


class Outcome(IntEnum):
    """Exit statuses. Of a process that was killed for what it used the status is negative."""

    READ = 0
    UNREADABLE = 3
    TOO_MANY_PAGES = 4
    TOO_LONG = 5


def main() -> int:
    """Read one document."""
    max_pages, max_characters, max_cpu_s, max_memory_bytes = map(int, sys.argv[1:])
    resource.setrlimit(resource.RLIMIT_CPU, (max_cpu_s, max_cpu_s))
    resource.setrlimit(resource.RLIMIT_AS, (max_memory_bytes, max_memory_bytes))
    # Every flaw of a document would be a line.
    logging.disable()
    try:
        text = _text(sys.stdin.buffer.read(), max_pages, max_characters)
    # Broken documents break the library in more ways than its own.
    except Exception:
        return Outcome.UNREADABLE
    if isinstance(text, Outcome):
        return text
    sys.stdout.buffer.write(text.encode("utf-8", "replace"))
    return Outcome.READ


def _text(document: bytes, max_pages: int, max_characters: int) -> str | Outcome:
    # Here, where the limits hold.
    import pypdf

    pages = pypdf.PdfReader(io.BytesIO(document)).pages
    if len(pages) > max_pages:
        return Outcome.TOO_MANY_PAGES
    texts = []
    for page in pages:
        texts.append(page.extract_text())
        max_characters -= len(texts[-1])
        if max_characters < 0:
            return Outcome.TOO_LONG
    return "\n\n".join(texts)


if __name__ == "__main__":
    sys.exit(main())
