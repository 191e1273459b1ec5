"""What single keywords of a JSON Schema cost, in checks: each some 100 ns, measured with jsonschema-rs."""

from __future__ import annotations

import math
import sys
from typing import Any, Final

SLOWEST_NUMBER: Final = sys.float_info.min
"""None takes longer to divide."""

_FLOAT_CHECKS: Final = 50
"""Fractions are compared as decimals, which takes so much longer."""
_DIVISION_CHECKS: Final = 20
"""What `multipleOf` takes at an ordinary number."""


def division_checks(number: float, divisor: float) -> int:
    """Count what it takes to tell whether a number is a multiple of another.

    Divisions are exact: a number of 2 to the power of -1000 is a fraction of hundreds of digits.
    """
    return _DIVISION_CHECKS + _half_exponent(number) + _half_exponent(divisor)


def compared_values(value: Any) -> int:
    """Count what a value has to be compared with; texts are found at once."""
    match value:
        case list():
            return sum(1 + compared_values(child) for child in value if not isinstance(child, str))
        case dict():
            return sum(1 + compared_values(child) for child in value.values())
        case float():
            return _FLOAT_CHECKS
        case _:
            return 0


def names_in(value: Any) -> int:
    """Count names, in a list or in several by name."""
    if isinstance(value, dict):
        return sum(1 + names_in(child) for child in value.values() if isinstance(child, list))
    return len(value) if isinstance(value, list) else 0


def _half_exponent(number: float) -> int:
    """Half the power of two, without its sign: 0 for numbers near 1, some 500 for the largest."""
    return abs(math.frexp(number)[1]) // 2
