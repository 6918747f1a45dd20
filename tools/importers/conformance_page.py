"""Writes docs/conformance.md: every conformance case with its rules, its test and the result of a test run.

pytest tests/conformance --junitxml=report.xml
python -m rollup_node.tools.importers.conformance_page report.xml [--out FILE]
"""

import argparse
import sys
import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree

_ROOT = Path(__file__).resolve().parents[2]
_TABLES = _ROOT / "tests" / "vectors" / "conformance"
TABLE = _TABLES / "cases.toml"
TABLES = (TABLE, _TABLES / "differs.toml", _TABLES / "faults.toml")
PAGE = _ROOT / "docs" / "conformance.md"
MISSING = "no test"

_HEAD = """# Conformance

What derivation makes of any L1 data, case by case. The rules are those of [docs/rules](rules/README.md); (M) marks
results that were measured with the libraries that op-node reads with. The last sections cover the points on which
specs, op-node and kona differ, with the side taken, and the faults that users of other nodes have reported. Generated
from a test run by `python -m rollup_node.tools.importers.conformance_page`; do not edit. `pytest tests/conformance -k
CASE` runs one case.
"""


class ConformanceCase(NamedTuple):
    """A row of the table; `rule` names rule ids, with (M) for a measured result."""

    id: str
    stage: str
    rule: str
    expectation: str


class CaseResult(NamedTuple):
    """The file of a case's test, and its result: passed, failed or skipped."""

    file: str
    result: str


def load_cases(*paths: Path) -> dict[str, ConformanceCase]:
    """The cases of all tables, or of those given, by case id."""
    stages = [found for path in paths or TABLES for found in tomllib.loads(path.read_text()).items()]
    return {key: ConformanceCase(key, stage, *row) for stage, rows in stages for key, row in rows.items()}


def load_report(path: Path) -> dict[str, CaseResult]:
    """The results of a test run by test name, from pytest's JUnit report.

    Raises OSError or ElementTree.ParseError for a file that is no report."""
    found = {}
    for test in ElementTree.parse(path).iter("testcase"):
        problems = {child.tag for child in test} & {"failure", "error", "skipped"}
        result = "skipped" if problems == {"skipped"} else "failed" if problems else "passed"
        file = test.get("classname", "").replace(".", "/") + ".py"
        found[test.get("name", "")] = CaseResult(file, result)
    return found


def page(cases: Mapping[str, ConformanceCase], report: Mapping[str, CaseResult]) -> str:
    """The text of the document."""
    return "\n".join([_HEAD, *_summary(cases, report), *_stages(cases, report), ""])


def _summary(cases: Mapping[str, ConformanceCase], report: Mapping[str, CaseResult]) -> Iterator[str]:
    results = Counter(report[key].result if key in report else MISSING for key in cases)
    yield f"{len(cases)} cases: " + ", ".join(f"{count} {result}" for result, count in sorted(results.items())) + "."


def _stages(cases: Mapping[str, ConformanceCase], report: Mapping[str, CaseResult]) -> Iterator[str]:
    for stage in dict.fromkeys(case.stage for case in cases.values()):
        own = [case for case in cases.values() if case.stage == stage]
        files = sorted({report[case.id].file for case in own if case.id in report})
        yield f"\n## {stage}\n\n{', '.join(f'`{file}`' for file in files) or MISSING}\n"
        yield "| ConformanceCase | Rule | What must come out | CaseResult |\n|---|---|---|---|"
        for case in own:
            result = report[case.id].result if case.id in report else MISSING
            yield f"| `{case.id}` | {case.rule} | {case.expectation} | {result} |"


def main(arguments: list[str] | None = None) -> int:
    """Writes the page; 1 if a case has no test that passed."""
    parser = argparse.ArgumentParser(description="Writes docs/conformance.md from a test run.", allow_abbrev=False)
    parser.add_argument("report", type=Path, help="pytest's report, as --junitxml writes it")
    parser.add_argument("--out", type=Path, default=PAGE)
    options = parser.parse_args(arguments)
    try:
        report = load_report(options.report)
    except (OSError, ElementTree.ParseError) as error:
        print(f"error: {options.report} is not a JUnit report: {error}", file=sys.stderr)
        return 1
    cases = load_cases()
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(page(cases, report))
    not_passed = [key for key in cases if key not in report or report[key].result != "passed"]
    if not_passed:
        print(f"{len(not_passed)} cases without a test that passed: {' '.join(not_passed[:10])}", file=sys.stderr)
    return 1 if not_passed else 0


if __name__ == "__main__":
    sys.exit(main())
