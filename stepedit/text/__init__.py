"""Text: tokenization without loss, vocabularies, windows, lexicons, synthetic noise."""
