"""Language: words, dates, what a message states of its author, and the vocabulary that all rules about texts share."""
