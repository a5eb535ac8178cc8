"""The load generator: requests over real HTTP, each with its stamps. It knows no engine and no target."""
