"""The three severities of a stage: the base class says who acts. Anything else that is raised is a bug."""


class StageError(Exception):
    """Common base, for the runtime only; raise one of the three below."""


class TemporaryError(StageError):
    """An endpoint is away or slow: back off, then the same step again."""


class ResetError(StageError):
    """What was built on is gone (L1 reorg, origin mismatch): clear, and ask for a reset."""


class CriticalError(StageError):
    """Our own state contradicts itself: the process exits and the supervisor stops the node."""
