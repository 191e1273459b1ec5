"""The model list, as both faces show it."""

from __future__ import annotations

from openresponses.v1.service_pb2 import ListModelsResponse, Model

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
    return Model(id=info.id, object="model", created=info.created, owned_by=info.owned_by)
