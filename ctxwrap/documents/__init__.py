"""Entries: what a memory keeps of each message in short, and the document that grows from all of them."""
