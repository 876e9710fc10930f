"""Encryption at rest, over any store: everything but names of sessions, numbers and sizes is sealed by AES-256-GCM.

Each session has a random key of its own, wrapped by a master key, in `key.json`. Every record and file is bound to its
session and its place, so that nothing opens anywhere else.
"""

from ctxwrap.stores.encrypted.store import EncryptedStore

__all__ = ["EncryptedStore"]
