"""The memory service: entries, context documents and search over the log of sessions, for agents and their tools."""
