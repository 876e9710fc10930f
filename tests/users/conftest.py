"""A PostgreSQL for tests of users that need one."""

from tests.stores.conftest import close_stores, database, postgres

__all__ = ["close_stores", "database", "postgres"]
