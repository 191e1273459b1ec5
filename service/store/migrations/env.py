"""Alembic's entry point: runs the versions in the transaction that the service has begun."""

from alembic import context

from service.store.tables import METADATA

context.configure(connection=context.config.attributes["connection"], target_metadata=METADATA)
context.run_migrations()
