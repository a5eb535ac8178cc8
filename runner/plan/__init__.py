"""What will be done: conditions expanded, arguments rendered, rounds counted."""
