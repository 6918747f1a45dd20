"""The table of codes."""

from rollup_node.stages.messages.codes import Code


def test_codes_are_words_for_people() -> None:
    for code in Code:
        assert code.text == code.text.upper() and " " not in code.text and "_" not in code.text
        assert code.meaning.endswith(".") and code.meaning[0].isupper()
        assert code.remedy[0].islower() and not code.remedy.endswith(".") and "\n" not in code.meaning + code.remedy
    assert len({code.text for code in Code}) == len(Code)


def test_findings_are_told_apart_from_conditions_that_last() -> None:
    assert Code.L1_HEAD.is_finding and Code.PORT_TAKEN.is_finding
    assert not Code.BLOB_EXPIRED.is_finding and not Code.NO_BATCHES.is_finding
