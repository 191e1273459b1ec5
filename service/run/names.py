"""What OpenAI's API takes for a name of a tool, a namespace or a format."""

from __future__ import annotations

import re
from typing import Final

NAME_RULE: Final = "1 to 64 letters, digits, '_' or '-'"
"""As it ends a sentence."""

_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")


def is_name(text: str) -> bool:
    """Whether a text is one."""
    return _NAME.fullmatch(text) is not None
