"""Carrying a plan out: engines started, proved and measured, everything said as events."""
