"""Plain clients: the same closed loop over the ways by which Python programs read a stream.

`python -m instrument.clients.NAME JOB` carries out the job of a JSON file, and writes what it saw beside it. In the
round each keeps what came with the time at which it had it; events are looked for afterwards, alike for all.
"""
