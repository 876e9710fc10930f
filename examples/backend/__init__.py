"""A chatbot backend: signed-in users, answers that stream, and a memory that no worker can lose."""
