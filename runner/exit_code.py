"""The command's exit codes, with one meaning each. The README's table says the same."""

from enum import IntEnum


class ExitCode(IntEnum):
    """What `run` ends with."""

    HELD = 0
    INVARIANT_FAILED = 1
    INVALID = 2
    ENGINE_DID_NOT_START = 3
    NOT_IN_FORCE = 4
    INCOMPLETE = 5
    INCONCLUSIVE = 6
    NOT_RESTORED = 7
    REFUSED = 8
    INTERNAL = 70
    INTERRUPTED = 130
