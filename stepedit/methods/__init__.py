"""Methods: what a programmer predicts about a text, and how that becomes a text; one file per method."""
