"""Sessions in PostgreSQL, for workers on many machines, behind any pool of connections that shares by transaction.

`locked` is a transaction that has the session's row: what is written in it is sent at its end, all at once, and either
all of it is there or nothing. Whatever else is asked is a short transaction of its own. Between the words of a model no
connection is held: the right to be the only turn is a row that is renewed.
"""

from ctxwrap.stores.postgres.store import PostgresStore

__all__ = ["PostgresStore"]
