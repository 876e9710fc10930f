"""The Context Protocol: the instructions for the model, and the reader of its replies.

A reply enters, whole or as a stream; the visible text and the snapshot leave, with repairs and violations (`reply`).
`splitter` separates text and trailer, `recovery` reads a trailer that may be damaged (`repair`), `snapshot` brings it
into canonical form, `origin` rejects snapshots copied from the request. `instructions` holds the texts sent to the
model. Begin with `reply.py`.
"""

from ctxwrap.protocol.reply import ReplyStream, read_reply

__all__ = ["ReplyStream", "read_reply"]
