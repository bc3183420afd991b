"""Edits, actions and the interpreter that applies them: pure functions on arrays, no parameters."""
