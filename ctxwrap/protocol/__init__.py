"""The Context Protocol: what the model is told, and how its trailer is found, mended and read."""

from ctxwrap.protocol.reply import ReplyStream, read_reply

__all__ = ["ReplyStream", "read_reply"]
