"""The model list, as both faces show it."""

from __future__ import annotations

from openresponses.v1.service_pb2 import ListModelsResponse, Model, ModelCapabilities

from service.engine.base import Engine, ModelInfo, find_model


def list_models(engine: Engine) -> ListModelsResponse:
    """Return every model of the engine, the default first."""
    return ListModelsResponse(object="list", data=[_model(info) for info in engine.models()])


def get_model(engine: Engine, name: str) -> Model:
    """Return one model.

    Raises:
        NotFound: there is no model of that name.
    """
    return _model(find_model(engine, name))


def _model(info: ModelInfo) -> Model:
    return Model(
        id=info.id,
        object="model",
        created=info.created,
        owned_by=info.owned_by,
        context_window=info.context_window_tokens,
        context_length=info.context_window_tokens,
        max_model_len=info.context_window_tokens,
        max_output_tokens=info.max_output_tokens,
        input_modalities=["text"],
        output_modalities=["text"],
        capabilities=ModelCapabilities(
            function_calling=True,
            parallel_tool_calls=True,
            guided_decoding=info.guided,
            structured_output=True,
            reasoning=True,
            logprobs=info.logprobs,
            stored_responses=True,
        ),
    )
