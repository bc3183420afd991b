"""An HTTP API and a page that plays the edits."""
