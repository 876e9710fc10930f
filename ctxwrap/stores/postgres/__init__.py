"""Sessions in PostgreSQL, for workers on many machines, with or without a pooler in transaction mode.

`locked` is a transaction that holds the session's row. Its writes are sent together at its end and are committed all or
not at all. Any other query is a short transaction of its own. No connection is held while a model answers: the lease of
a turn is a row that is renewed.
"""

from ctxwrap.stores.postgres.store import PostgresStore

__all__ = ["PostgresStore"]
