"""The GPUs of one engine: which they are, what they do while load runs, and who else is on them.

Local are those of this machine, remote those that a program beside the engine reads; the rest of a run does not know
which.
"""
