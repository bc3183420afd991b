"""Programmers: neural networks that read a state and predict an action; one file per kind."""
