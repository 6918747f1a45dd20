"""docs/evidence/conformance.md lists every case with its rules and the result of a run."""

from pathlib import Path

from rollup_node.tools.importers.conformance_page import PAGE, load_cases, load_report, page

CASES = load_cases()
REPORT = """<testsuites><testsuite>
<testcase classname="tests.conformance.test_frame" name="frame_one_ok" />
<testcase classname="tests.conformance.test_frame" name="frame_zero_len"><failure message="no" /></testcase>
<testcase classname="tests.conformance.test_fq" name="fq_gap"><skipped message="no" /></testcase>
<testcase classname="tests.conformance.test_fault.fault_f21.test_rlp" name="rlp_type_2" />
<testcase classname="tests.conformance.test_fault.fault_f39.test_x" name="test_a"><failure message="no" /></testcase>
<testcase classname="tests.conformance.test_fault.fault_f39.test_x" name="test_b[1.5]" />
</testsuite></testsuites>"""


def rows(text: str) -> dict[str, list[str]]:
    """Return the cells after the id, by id."""
    result = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines()]
    return {cells[0].strip("`"): cells[1:] for cells in result if cells[0].startswith("`") and len(cells) == 4}


def test_the_page_lists_every_case_as_the_table_has_it() -> None:
    listed, expected = (
        {key: cells[:2] for key, cells in rows(text).items()} for text in (PAGE.read_text(), page(CASES, {}))
    )
    hint = "run pytest tests/conformance --junitxml=FILE, then tools/importers/conformance_page on it"
    assert {key: cells[:2] for key, cells in listed.items()} == {key: cells[:2] for key, cells in expected.items()}, (
        hint
    )


def test_results_are_those_of_the_run(tmp_path: Path) -> None:
    (tmp_path / "report.xml").write_text(REPORT)
    text = page(CASES, load_report(tmp_path / "report.xml"))
    results = {"frame_one_ok": "passed", "frame_zero_len": "failed", "fq_gap": "skipped", "fq_dup": "no test"}
    results |= {"fault_f21": "passed", "fault_f39": "failed"}
    assert {key: rows(text)[key][2] for key in results} == results
    assert f"{len(CASES)} cases: 2 failed, {len(CASES) - 5} no test, 2 passed, 1 skipped." in text
    assert "`tests/conformance/test_frame.py`" in text
