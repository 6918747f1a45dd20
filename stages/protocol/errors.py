"""The three severities of errors in a stage. The runtime acts by the base class; any other exception is a bug."""


class StageError(Exception):
    """Common base, for the runtime to catch; raise one of the three below."""


class TemporaryError(StageError):
    """An endpoint does not answer: the runtime repeats the step after a back-off."""


class ResetError(StageError):
    """The chain below has changed (L1 reorg, origin mismatch): the stage is reset."""


class CriticalError(StageError):
    """The node cannot go on: the process exits and the supervisor stops all others."""


class HaltError(CriticalError):
    """The node must not go on: L1 requires a protocol version that it does not support."""


class NetworkLeftError(CriticalError):
    """The node must not go on: the next block follows a fork that is not of the OP Stack [LFT4]."""
