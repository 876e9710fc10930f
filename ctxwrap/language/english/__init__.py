"""Rules for English sentences; begin with `clauses`."""
