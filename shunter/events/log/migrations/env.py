"""What Alembic runs: the missing revisions, on the connection it was handed."""

from alembic import context
from sqlalchemy import Connection

connection = context.config.attributes["connection"]
assert isinstance(connection, Connection), "upgrading hands over its connection"
# Alembic's own transaction would end the one that is open here, and with it the lock.
context.configure(connection=connection, transactional_ddl=False)
context.run_migrations()
