"""A clock that moves only when the test moves it."""


class ManualClock:
    """Returns `now`, in seconds."""

    def __init__(self, now: float) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now
