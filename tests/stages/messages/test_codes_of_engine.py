"""An entry of the table of codes."""

from rollup_node.stages.messages.codes_of_engine import EVENT, FINDING, CodeEntry


class _Table(CodeEntry):
    DISK_FULL = ("The disk is full.", "make room")
    DISK_SLOW = ("The disk is slow.", "use another one", EVENT)
    NO_DISK = ("There is no disk.", "mount one", FINDING)


def test_its_texts() -> None:
    code = _Table.DISK_FULL
    assert (code.text, code.meaning, code.remedy) == ("DISK-FULL", "The disk is full.", "make room")
    assert [entry.value for entry in _Table] == [0, 1, 2], "messages carry them"


def test_its_kind() -> None:
    assert [(code.is_event, code.is_finding) for code in _Table] == [(False, False), (True, False), (False, True)]
