"""Reading an engine's metrics while it works and when it is idle."""
