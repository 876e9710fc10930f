"""Mending: the ways in which the JSON of a snapshot is damaged, and the readers that undo them without guessing."""
