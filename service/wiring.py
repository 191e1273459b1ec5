"""Wires the service's parts together: everything between an engine and the faces."""

from __future__ import annotations

import secrets
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import assert_never

from openresponses.v1.item_pb2 import InputItem

from service.api.background import Background
from service.api.compaction import Compactor
from service.api.context import ContextReader
from service.api.conversations import Conversations
from service.api.responses import Responses
from service.api.sealing import Sealer
from service.config import Settings
from service.dialect.base import Dialect
from service.dialect.chat.dialect import ChatDialect
from service.dialect.harmony.dialect import HarmonyDialect
from service.engine.base import Engine
from service.files.file_reader import FileReader
from service.files.pdf_reader import PdfReader
from service.metrics import Metrics
from service.run.drain import Drain
from service.run.interval import AdaptiveBounds, AdaptiveInterval, Interval
from service.run.preparation import Preparation
from service.run.run import ResponseRunner, StreamSettings
from service.run.validation import RequestLimits
from service.store.conversations import ConversationStore
from service.store.database import Database
from service.store.event_log import EventLog
from service.store.responses import Limits, ResponseStore


@dataclass(frozen=True, slots=True)
class Parts:
    """What the faces serve, and what the server sees through start and stop."""

    responses: Responses
    conversations: Conversations
    compactor: Compactor
    background: Background
    interval: Interval
    drain: Drain


async def wire(settings: Settings, engine: Engine, database: Database, metrics: Metrics) -> Parts:
    """Return the parts for one engine and one database."""
    drain, preparation = Drain(), Preparation()
    dialect = create_dialect(settings)
    interval = _interval(settings)
    runner = ResponseRunner(
        engine,
        dialect,
        StreamSettings(
            interval=interval,
            interval_ms=settings.stream_interval_ms,
            max_waiting_tokens=settings.max_waiting_tokens,
            silence_s=settings.keepalive_s,
            limits=RequestLimits(
                max_interval_tokens=settings.max_stream_interval,
                max_interval_ms=settings.max_stream_interval_ms,
                rejects_unoffered_tools=settings.unsupported_tools == "reject",
            ),
        ),
        drain,
        preparation,
        clock=time.time,
        show_reasoning=settings.show_reasoning,
        observe=metrics.observe,
    )
    metrics.watch(lambda: runner.running)
    limits = Limits(ttl_s=settings.store_ttl_s, max_bytes=settings.max_stored_bytes)
    conversation_store = ConversationStore(database, _new_id)
    store = ResponseStore(database, conversation_store, limits, time.time)
    sealer = Sealer(settings.sealing_keys or [await database.secret("sealing")])
    background = Background(
        EventLog(database, store, limits, settings.lease_s, time.time),
        store,
        drain,
        lease_s=settings.lease_s,
        silence_s=settings.keepalive_s,
    )
    context = ContextReader(store, conversation_store, sealer, FileReader(PdfReader()))

    async def check(items: Sequence[InputItem], owner: str) -> None:
        opened = [InputItem.FromString(item.SerializeToString()) for item in items]
        context.open_seals(opened, owner, "items")
        await context.read_files(opened, "items")
        dialect.check_items(opened)

    responses = Responses(runner, store, context, background, sealer, drain, preparation, _new_id)
    return Parts(
        responses=responses,
        conversations=Conversations(conversation_store, check, time.time),
        compactor=Compactor(responses, context, preparation, sealer, _new_id, time.time),
        background=background,
        interval=interval,
        drain=drain,
    )


def create_dialect(settings: Settings) -> Dialect:
    """Return the dialect that the settings name."""
    match settings.dialect:
        case "harmony":
            return HarmonyDialect()
        case "chat":
            return ChatDialect()
        case _:
            assert_never(settings.dialect)


def _interval(settings: Settings) -> Interval:
    if settings.stream_interval != "auto":
        return Interval(settings.stream_interval)
    return AdaptiveInterval(
        AdaptiveBounds(
            settings.auto_min_interval,
            max(settings.auto_min_interval, settings.auto_max_interval),
            settings.auto_max_lag_ms / 1000,
        )
    )


def _new_id() -> str:
    return secrets.token_hex(16)
