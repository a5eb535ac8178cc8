"""What the author wrote: the YAML language, its errors and its schema."""
