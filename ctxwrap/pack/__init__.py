"""The pack of a call: select context within a token budget, frame it, inject it, and record what was chosen."""
