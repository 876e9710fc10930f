"""Language: words, dates and the vocabulary that all rules about texts share."""
