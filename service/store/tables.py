"""The tables. Messages are kept as protobuf, which reads what older versions of the contract wrote.

`migrations/versions/` makes them; a test holds that both say the same.
"""

from __future__ import annotations

from typing import Final

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Float,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
)

METADATA: Final = MetaData()

NEVER: Final = 2**62
"""Unix time in seconds of what does not happen."""

RESPONSES: Final = Table(
    "responses",
    METADATA,
    Column("id", String(64), primary_key=True),
    # Whose it is: see `rpc/auth.py`.
    Column("owner", String(64), nullable=False),
    # Unix time in seconds; `NEVER` until it ends.
    Column("expires_at", BigInteger, nullable=False, index=True),
    # The response that this one continues. No foreign key: it may be deleted.
    Column("previous_id", String(64)),
    # OpenAI's words: queued, in_progress, completed, incomplete, failed, cancelled.
    Column("status", String(16), nullable=False),
    # It has, or had, a producer of its own, and its events are kept; else it was written when it was over.
    Column("background", Boolean, nullable=False),
    # A Response: as it was before it had any output, and from its end on as it ended.
    Column("response", LargeBinary, nullable=False),
    # An InputItemList: what was new in the request.
    Column("input", LargeBinary, nullable=False),
)

LEASES: Final = Table(
    "leases",
    METADATA,
    Column("response_id", ForeignKey("responses.id", ondelete="CASCADE"), primary_key=True),
    # Unix time in seconds until which its producer has it in hand.
    Column("lease_until", Float, nullable=False),
)
"""The responses that are being made in the background. In a table of their own: a lease is written with every
flush, and the row of its response holds megabytes at times."""

EVENTS: Final = Table(
    "events",
    METADATA,
    Column("response_id", ForeignKey("responses.id", ondelete="CASCADE"), primary_key=True),
    Column("sequence_number", Integer, primary_key=True),
    # OpenAI's word, for example response.output_item.done.
    Column("type", String(64), nullable=False),
    # A ResponseStreamEvent.
    Column("event", LargeBinary, nullable=False),
)

CONVERSATIONS: Final = Table(
    "conversations",
    METADATA,
    Column("id", String(64), primary_key=True),
    Column("owner", String(64), nullable=False),
    # A ConversationResource.
    Column("conversation", LargeBinary, nullable=False),
)

CONVERSATION_ITEMS: Final = Table(
    "conversation_items",
    METADATA,
    Column("conversation_id", ForeignKey("conversations.id", ondelete="CASCADE"), primary_key=True),
    Column("position", Integer, primary_key=True),
    Column("id", String(128), nullable=False),
    # An InputItem.
    Column("item", LargeBinary, nullable=False),
    Index("ix_conversation_items_id", "conversation_id", "id", unique=True),
)

SECRETS: Final = Table(
    "secrets",
    METADATA,
    Column("name", String(64), primary_key=True),
    Column("value", String(256), nullable=False),
)
"""Keys that the replicas of a service share."""
