"""Neural nets that read a state and say something about it; one file per kind."""
