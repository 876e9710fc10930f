"""Packs as they are looked at: what a call sent, or would send, and why."""
