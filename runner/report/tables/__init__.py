"""The article's tables, one file each."""
