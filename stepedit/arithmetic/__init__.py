"""Arithmetic: parse, evaluate, count and sample equations, exactly."""
