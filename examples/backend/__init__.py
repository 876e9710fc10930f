"""A chatbot backend: signed-in users, streamed answers, and sessions that survive the death of any worker."""
