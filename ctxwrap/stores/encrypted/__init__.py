"""Encryption at rest, over any store, with AES-256-GCM. Names of sessions, numbers and sizes stay readable.

Each session has a random key in `key.json`, wrapped by a master key. Every record and file is bound to its session and
place: it does not decrypt anywhere else.
"""

from ctxwrap.stores.encrypted.store import EncryptedStore

__all__ = ["EncryptedStore"]
