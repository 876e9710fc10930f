"""Context middleware around LLM clients."""

__version__ = "0.1.0"
