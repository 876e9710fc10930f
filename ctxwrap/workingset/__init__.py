"""The working set: the files that a manifest lists, read, prioritised and assembled for each call."""
