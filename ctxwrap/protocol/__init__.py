"""The Context Protocol: what the model is told, and how its trailer is found, mended and read."""
