"""Makes the engine that the settings name. Engines are imported only when they are asked for."""

from __future__ import annotations

from typing import assert_never

from service.config import Settings
from service.engine.base import Engine
from service.errors import StartupError


def create_engine(settings: Settings) -> Engine:
    """Return the engine, ready to serve.

    Raises:
        StartupError: a file that it needs is missing or wrong.
    """
    match settings.engine:
        case "scripted":
            from service.engine.scripted import ScriptedEngine

            if settings.script is None:
                raise StartupError("--engine scripted needs --script FILE.")
            return ScriptedEngine(
                settings.script, slots=settings.slots, max_queued_requests=settings.max_queued_requests
            )
        case "embedded":
            from service.engine.embedded import MODEL_ID, bundled_model
            from service.engine.llama_cpp import LlamaCppEngine

            return LlamaCppEngine(
                settings.model or bundled_model(),
                settings.model.stem if settings.model else MODEL_ID,
                slots=settings.slots,
                max_queued_requests=settings.max_queued_requests,
                dialect=settings.dialect,
            )
        case _:
            assert_never(settings.engine)
