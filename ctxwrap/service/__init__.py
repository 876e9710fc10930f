"""The memory service: memories, entries, context documents and search for agents, on top of the log of sessions.

Calls of an agent enter, from Python (`Memories`) or over MCP (`mcp`); records in the log of a session and result models
(`models`) leave. A memory is a session, and a vault is an agent of the same tenant. Begin with `memories`, which checks
arguments (`arguments`), opens sessions (`sessions`) and reads and writes entries (`entries`). The proxy
(`serve`) stands beside it, and the page (`ui`); the servers of MCP and the proxy share `web`.
"""

from ctxwrap.service.memories import Memories

__all__ = ["Memories"]
