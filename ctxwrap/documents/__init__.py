"""Summaries of messages, and the context document of a conversation, by rules without a model.

Raw messages and memory lines enter. A summary per message (`summary`) and a Markdown document of at most 5000
characters (`document`) leave. `extraction` finds the lines, `comparison` decides whether a line is new, `trimming`
shortens the document. Nothing is ever derived from a summary. Begin with `document.grown`.
"""
