"""The table of codes."""

import re

from rollup_node.node.options.table import OPTIONS
from rollup_node.stages.messages.codes import Code

FOREIGN_FLAGS = {
    "authrpc.vhosts",
    "engine.persistence-threshold",
    "memory",
    "pids-limit",
    "ulimit",
    "p2p-subscribe-all-custody-subnets-enabled",
    "rpc",
    "semi-supernode",
    "supernode",
    "override",
    "override.FORK",
}
"""Options of other programs and of commands."""


def test_codes_are_words_for_people() -> None:
    for code in Code:
        assert code.text == code.text.upper() and " " not in code.text and "_" not in code.text
        assert code.meaning.endswith(".") and code.meaning[0].isupper()
        assert code.remedy[0].islower() and not code.remedy.endswith(".") and "\n" not in code.meaning + code.remedy
    assert len({code.text for code in Code}) == len(Code)


def test_findings_are_told_apart_from_conditions_that_last() -> None:
    assert Code.L1_HEAD.is_finding and Code.PORT_TAKEN.is_finding
    assert not Code.BLOB_EXPIRED.is_finding and not Code.NO_BATCHES.is_finding


def test_events_are_no_findings() -> None:
    assert Code.L1_REORG.is_event and not Code.L1_STALE.is_event
    assert not any(code.is_event and code.is_finding for code in Code)


def test_options_in_the_table_exist() -> None:
    options = {name for option in OPTIONS.values() for name in option.names}
    for code in Code:
        flags = re.findall(r"--([a-zA-Z0-9][a-zA-Z0-9.-]*[a-zA-Z0-9])", f"{code.meaning} {code.remedy}")
        assert set(flags) - options - FOREIGN_FLAGS == set(), code
