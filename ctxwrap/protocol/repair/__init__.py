"""Readers for damaged snapshots that never guess.

The text of a trailer enters; a Python object and the names of the repairs leave, or `Unreadable` or `Ambiguous` is
raised. `layers` undoes encodings and wrappings, `relaxed`, `notations` and `outline` read other notations, `edits`
searches the smallest correction, `by_keys` reads what is left by the snapshot's keys. All work is limited by
`strict.Effort`. `steps` calls them in order.
"""
