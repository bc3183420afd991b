"""Tasks: what is edited; one file per task."""
