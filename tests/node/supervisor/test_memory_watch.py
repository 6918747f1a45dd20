"""Little memory is a line a minute that names the largest processes."""

import pytest

from rollup_node.node.supervisor.memory_watch import EVERY_SECONDS, MemoryWatch
from rollup_node.node.system.memory import Memory
from rollup_node.stages.io.log import logger as log
from rollup_node.stages.io.log.logger import get_logger
from rollup_node.stages.messages.codes import Code


@pytest.mark.sign("MEMORY", line=True)
def test_little_memory(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log, "_configuration", log.configuration()._replace(level=log.Level.INFO))
    left = [
        Memory(4 * 10**9, 10**9),
        None,
        Memory(4 * 10**9, 10**8),
        Memory(4 * 10**9, 10**8),
        Memory(4 * 10**9, 10**9),
    ]
    sizes = {"l1": 900_000_000, "compute": 300_000_000, "rpc": 100_000_000, "p2p": 500_000_000}
    watch = MemoryWatch(get_logger("supervisor"), lambda: sizes, lambda: left.pop(0))
    now = 0.0
    while left:
        watch.step(now)
        watch.step(now + EVERY_SECONDS / 2)
        now += EVERY_SECONDS
    warning, end = capsys.readouterr().err.splitlines()
    assert warning == (
        "warn supervisor: little memory is left code=MEMORY available=100 MB total=4000 MB"
        f" largest=l1 900 MB, p2p 500 MB, compute 300 MB do={Code.MEMORY.remedy}"
    )
    assert end.startswith("info supervisor: there is memory again code=MEMORY available=1000 MB")
