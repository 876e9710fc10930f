"""Memories of one tenant: what an agent may do with them, each a session of the log or a collection of its own."""
