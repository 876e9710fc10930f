"""Retrieval: finding what was said earlier that matters for what is asked now, by its words."""
