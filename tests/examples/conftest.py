"""A PostgreSQL for the examples that need one."""

from tests.stores.conftest import database, postgres

__all__ = ["database", "postgres"]
