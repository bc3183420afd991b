"""Neural text editing, one edit at a time."""

__version__ = "0.1.0"
