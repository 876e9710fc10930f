"""Memory items in tiers, their decay, and the operations that change them.

A snapshot that the model wrote, or the user's statements, enter; operations for the log leave (`operations`). `Memory`
folds operations into the current items and applies decay (`decay`); `tier_view` shows them by importance. `epoch` keeps
the memory block byte-identical between prompts. `similarity` decides whether two texts state the same fact. Begin with
`memory.py`, then `operations.py`.
"""
