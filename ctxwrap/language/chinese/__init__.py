"""Rules for Chinese sentences; begin with `clauses`."""
