"""How true and how costly load generators are: ours, plain clients and other programs, against one oracle server."""
