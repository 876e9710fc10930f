"""The memory service for agents: its tools over the Model Context Protocol, on stdio and HTTP."""
