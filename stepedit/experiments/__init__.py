"""Grids of runs: what to run, where it runs, and what came of it."""
