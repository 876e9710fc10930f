"""The turn: one request and its reply, from the opening of the session to the last record written."""
