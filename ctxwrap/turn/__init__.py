"""The turn: one request and its reply.

The package owns a call from the moment a client hands it a request until the last record is in the log. A call passes
through `binding` (whose session, which mode), `sync` or `async_` (the driver, which does the provider's I/O),
`passthrough` (calls that need no turn), `lifecycle` (the session's lock, the log), `turn` (the state machine, without
I/O), `reply_reader` and `reask` (the reply), `memory_changes` and `records` (what is written), and `after_turn`
(summary, context document, derived files, mostly in the background: `summariser`, `document_updates`, `ending`).
Beside the path stand `redactor` (the redaction policy, at every step), `offers` (texts for the next call) and
`telemetry` (OpenTelemetry). Begin with `sync.py`, then `turn.py`.
"""
