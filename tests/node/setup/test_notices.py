"""Notices in the log at the start."""

import pytest

from rollup_node.node.setup.notices import Notice, log_notices
from rollup_node.node.supervisor.settings import NodeSettings
from rollup_node.node.system.log_formats import LogSettings
from rollup_node.stages.io.log.logger import Level

NOTICES = (Notice(Level.WARN, "a variable is unknown"), Notice(Level.INFO, "a key is new"))


@pytest.mark.parametrize(
    ("level", "texts"),
    [
        (Level.INFO, ["a variable is unknown", "a key is new"]),
        (Level.WARN, ["a variable is unknown"]),
        (Level.ERROR, []),
    ],
)
def test_notices_are_logged_at_their_level(
    capfdbinary: pytest.CaptureFixture[bytes], level: Level, texts: list[str]
) -> None:
    log_notices(NOTICES, NodeSettings("v1", LogSettings(level)))
    lines = capfdbinary.readouterr().out.decode().splitlines()
    assert [line.partition('msg="')[2].partition('"')[0] for line in lines] == texts
    assert all(("code=OPTIONS" in line) == (" lvl=warn " in line) for line in lines)
    assert all(" process=supervisor component=options " in line for line in lines)
