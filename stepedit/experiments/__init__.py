"""Grids of runs, where they are executed, and reports on their results."""
