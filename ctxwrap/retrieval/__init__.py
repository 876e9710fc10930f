"""Finds earlier messages that are relevant to a query.

Messages enter the `Index` as passages, a text query enters a `Ranking`, and a selection of passages within a token
budget leaves (`selection`). The index is derived from the log, stored in segments and rebuilt when missing or damaged.
`vectors` adds optional embeddings. Begin with `index.py`, then `ranking.py` and `features.py`.
"""
