"""What happened: one journal, the only truth, and the run directory around it."""
