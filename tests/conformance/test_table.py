"""The table of cases against the tests: every case of the stages that are done has one test, and no test is unknown."""

from collections import Counter

from kit.cases import ids_under_test

from rollup_node.tools.importers.conformance_page import load_cases

STAGES_DONE = ("l1", "tx", "src", "blob", "altda", "frame", "fq", "bank", "asm", "zip", "rlp")
"""Stages whose cases are all tested."""


def test_the_table_has_all_cases_of_the_rule_book() -> None:
    assert len(load_cases()) == 388


def test_no_case_has_two_tests_and_no_test_is_unknown() -> None:
    found = Counter(key for key, _ in ids_under_test())
    assert {key: times for key, times in found.items() if times > 1} == {}
    assert found.keys() <= load_cases().keys()


def test_every_case_of_the_stages_done_has_a_test() -> None:
    found = {key for key, _ in ids_under_test()}
    wanted = {case.id for case in load_cases().values() if case.stage in STAGES_DONE}
    assert wanted - found == set()


def test_a_test_stands_in_a_file_of_its_stage() -> None:
    cases = load_cases()
    wrong = [
        f"{key} in {path.name}"
        for key, path in ids_under_test()
        if not path.stem.startswith(f"test_{cases[key].stage}")
    ]
    assert wrong == []
