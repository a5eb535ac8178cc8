"""What this machine's GPUs do while an engine runs on them, and who else is there."""
