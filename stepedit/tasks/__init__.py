"""What is edited: one file per task, all behind the contract in `task`."""
