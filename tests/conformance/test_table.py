"""The table of cases against the tests: every case has one test, in a file of its stage."""

from collections import Counter

from rollup_node.tools.importers.conformance_page import load_cases
from tests.conformance.kit.cases import ids_under_test

STAGES = (
    *("l1", "tx", "src", "blob", "altda", "frame", "fq", "bank", "asm", "zip", "rlp"),
    *("single", "span", "spantx", "check1", "prefix", "full", "queue", "stage", "reset"),
)
"""The stages of derivation, in the order in which data pass them."""


def test_no_case_of_the_stages_is_lost() -> None:
    stages = Counter(case.stage for case in load_cases().values())
    assert sum(stages[stage] for stage in STAGES) == 414


def test_every_case_has_one_test_and_every_test_its_case() -> None:
    counter = Counter(key for key, _ in ids_under_test())
    cases = load_cases().keys()
    assert {key: times for key, times in counter.items() if times > 1} == {}
    assert (cases - counter.keys(), counter.keys() - cases) == (set(), set())


def test_a_case_is_tested_in_a_file_of_its_stage() -> None:
    cases = load_cases()
    wrong = [
        f"{key} in {path.name}"
        for key, path in ids_under_test()
        if not path.stem.startswith(f"test_{cases[key].stage}")
    ]
    assert wrong == []
