"""How long a command waits, and what it says meanwhile."""

from rollup_node.tools.inspect.patience import FIRST_NOTICE, NOTICE_INTERVAL, Patience


def test_without_a_timeout_it_never_ends_and_says_so_once_a_minute() -> None:
    patience = Patience(None, 100.0)
    assert not patience.is_over(1e9)
    assert patience.notice(100 + FIRST_NOTICE - 1, "blobs") == ""
    assert patience.notice(100 + FIRST_NOTICE, "blobs") == "rollup-node: waiting for 15s: blobs\n"
    assert patience.notice(100 + FIRST_NOTICE + NOTICE_INTERVAL - 1, "blobs") == ""
    assert patience.notice(100 + FIRST_NOTICE + NOTICE_INTERVAL, "L1").endswith("waiting for 1m15s: L1\n")


def test_progress_begins_the_time_again() -> None:
    patience = Patience(30.0, 0.0)
    patience.progress(29.0)
    assert not patience.is_over(59.0)
    assert patience.notice(29 + FIRST_NOTICE - 1, "") == ""
    assert patience.is_over(59.1)
