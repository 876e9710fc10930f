"""The session: an append-only log, the state folded from it, and the files derived from it."""
