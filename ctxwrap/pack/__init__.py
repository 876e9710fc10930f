"""The stages of a turn before the provider is asked: selection, then assembly."""
