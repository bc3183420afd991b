"""One file per command. They import what is heavy only when they run, so that `--help` answers at once."""
