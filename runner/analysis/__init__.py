"""Figures: pure functions of the record, one metric a file, the formula in its docstring."""
