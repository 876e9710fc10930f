"""Doors: how each client is entered, and how its answers keep their type."""
