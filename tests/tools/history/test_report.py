"""The page of a history."""

import re
from xml.etree import ElementTree

from rollup_node.tools.history.report import ReportValues, report_page


def _values() -> ReportValues:
    values = ReportValues()
    values.add_blocks([(100, 90, 10), (100, 40, 30), (86_400, 86_390, 7)])
    values.add_batches([(100,), (100,), (86_400,)])
    values.add_drops([("PX5", "dropped", "span_past")] * 3 + [("V4", "dropped", "<script>")])
    return values


def test_days_are_summed_up() -> None:
    page = report_page("local", _values(), ["L1 blocks 5 to 9: not derived"])
    assert "3 L2 blocks, 3 batches, 4 drops on 2 days of L1" in page
    titles = re.findall(r"<title>(1970[^<]*)</title>", page)
    assert titles == [
        "1970-01-01: 20.0",
        "1970-01-02: 7.0",
        "1970-01-01: 2.0",
        "1970-01-02: 1.0",
        "1970-01-01: 35.0",
        "1970-01-02: 10.0",
        "1970-01-01: 60.0",
        "1970-01-02: 10.0",
    ]
    assert "<td>PX5</td><td>dropped</td><td>span_past</td><td>3</td>" in page
    assert "<li>L1 blocks 5 to 9: not derived</li>" in page


def test_nothing_is_loaded_and_nothing_is_run() -> None:
    page = report_page("<b>", _values(), ["<i>"])
    assert not re.search(r"<script|<b>|<i>|https?://|src=|href=", page)
    for svg in re.findall(r"<svg.*?</svg>", page):
        ElementTree.fromstring(svg)


def test_an_empty_history() -> None:
    page = report_page("local", ReportValues(), [])
    assert page.count("<p>none</p>") == 6


def test_many_rules_and_gaps_are_cut() -> None:
    values = ReportValues()
    values.add_drops([(f"R{number}", "dropped", "x") for number in range(100)])
    page = report_page("local", values, [f"gap {number}" for number in range(300)])
    assert "<td>others</td><td></td><td></td><td>60</td>" in page and "<li>and 200 more</li>" in page
