"""What we know of vLLM: pure functions over its arguments, log, metrics and replies; no I/O."""
