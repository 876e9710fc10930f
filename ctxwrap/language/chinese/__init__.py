"""Chinese: what a clause of a user says of themselves."""
