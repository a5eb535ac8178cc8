"""The programs that are measured: how each is called for a task, and how its result is read."""
