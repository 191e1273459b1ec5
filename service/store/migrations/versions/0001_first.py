"""The first tables."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def upgrade() -> None:
    """Make them."""
    op.create_table(
        "responses",
        sa.Column("id", sa.String(64), primary_key=True),
        sa.Column("owner", sa.String(64), nullable=False),
        sa.Column("expires_at", sa.BigInteger, nullable=False),
        sa.Column("previous_id", sa.String(64)),
        sa.Column("status", sa.String(16), nullable=False),
        sa.Column("background", sa.Boolean, nullable=False),
        sa.Column("response", sa.LargeBinary, nullable=False),
        sa.Column("input", sa.LargeBinary, nullable=False),
    )
    op.create_index("ix_responses_expires_at", "responses", ["expires_at"])
    op.create_table(
        "leases",
        sa.Column(
            "response_id", sa.String(64), sa.ForeignKey("responses.id", ondelete="CASCADE"), primary_key=True
        ),
        sa.Column("lease_until", sa.Float, nullable=False),
    )
    op.create_table(
        "events",
        sa.Column(
            "response_id", sa.String(64), sa.ForeignKey("responses.id", ondelete="CASCADE"), primary_key=True
        ),
        sa.Column("sequence_number", sa.Integer, primary_key=True),
        sa.Column("type", sa.String(64), nullable=False),
        sa.Column("event", sa.LargeBinary, nullable=False),
    )
    op.create_table(
        "conversations",
        sa.Column("id", sa.String(64), primary_key=True),
        sa.Column("owner", sa.String(64), nullable=False),
        sa.Column("conversation", sa.LargeBinary, nullable=False),
    )
    op.create_table(
        "conversation_items",
        sa.Column(
            "conversation_id",
            sa.String(64),
            sa.ForeignKey("conversations.id", ondelete="CASCADE"),
            primary_key=True,
        ),
        sa.Column("position", sa.Integer, primary_key=True),
        sa.Column("id", sa.String(128), nullable=False),
        sa.Column("item", sa.LargeBinary, nullable=False),
    )
    op.create_index("ix_conversation_items_id", "conversation_items", ["conversation_id", "id"], unique=True)
    op.create_table(
        "secrets",
        sa.Column("name", sa.String(64), primary_key=True),
        sa.Column("value", sa.String(256), nullable=False),
    )
