"""Which errors of retried work are logged."""

from rollup_node.stages.io.repeated_errors import MAX_LINES, MAX_TEXT, REPEAT_SECONDS, RepeatedErrors, shortened


class Errors:
    """Errors at times that a test sets."""

    def __init__(self) -> None:
        self.now = 0.0
        self.repeated = RepeatedErrors(lambda: self.now)

    def lines(self, *texts: str) -> list[str]:
        return [text for text in texts if self.repeated.is_due(text)]


def test_a_text_is_logged_once_a_minute_with_the_number_left_out() -> None:
    errors = Errors()
    assert errors.lines("away", "away", "slow", "away") == ["away", "slow"]
    assert (errors.repeated.take_left_out(), errors.repeated.take_left_out()) == (2, 0)
    errors.now = REPEAT_SECONDS - 0.1
    assert errors.lines("away") == []
    errors.now = REPEAT_SECONDS
    assert errors.lines("away") == ["away"]
    assert errors.repeated.take_left_out() == 1


def test_texts_that_always_differ_are_bounded_as_well() -> None:
    errors = Errors()
    count = 0
    for second in range(3600):
        errors.now = float(second)
        count += len(errors.lines(f"error {second}"))
    assert count == 60 * MAX_LINES
    assert errors.repeated.take_left_out() == 3600 - count


def test_a_long_text_is_cut() -> None:
    assert shortened("x" * MAX_TEXT) == "x" * MAX_TEXT
    assert shortened("x" * 10**6) == "x" * MAX_TEXT + "..."
