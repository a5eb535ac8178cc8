"""The report: a function of the record. The same record gives the same bytes, offline, whenever it is asked."""
