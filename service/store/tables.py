"""The tables. Messages are kept as protobuf, which reads what older versions of the contract wrote.

`migrations/versions/` makes them; a test holds that both say the same.
"""

from __future__ import annotations

from typing import Final

from sqlalchemy import BigInteger, Column, Float, ForeignKey, Integer, LargeBinary, MetaData, String, Table

METADATA: Final = MetaData()

RESPONSES: Final = Table(
    "responses",
    METADATA,
    Column("id", String(64), primary_key=True),
    # Whose it is: see `rpc/auth.py`.
    Column("owner", String(64), nullable=False),
    # Unix time in seconds.
    Column("expires_at", BigInteger, nullable=False, index=True),
    # The response that this one continues. No foreign key: it may be deleted.
    Column("previous_id", String(64)),
    # OpenAI's words: queued, in_progress, completed, incomplete, failed, cancelled.
    Column("status", String(16), nullable=False),
    # Unix time in seconds until which its producer has it in hand; null for a response that was kept when it
    # was over, and so has no events.
    Column("lease_until", Float, index=True),
    # A Response.
    Column("response", LargeBinary, nullable=False),
    # An InputItemList: what was new in the request.
    Column("input", LargeBinary, nullable=False),
)

EVENTS: Final = Table(
    "events",
    METADATA,
    Column("response_id", ForeignKey("responses.id", ondelete="CASCADE"), primary_key=True),
    Column("sequence_number", Integer, primary_key=True),
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
)

SECRETS: Final = Table(
    "secrets",
    METADATA,
    Column("name", String(64), primary_key=True),
    Column("value", String(256), nullable=False),
)
"""Keys that the replicas of a service share."""
