"""The crafted states are what their names say, by the real builder, and are served."""

import pytest

from rollup_node.stages.rpc.status.node_status import EndpointState, State
from rollup_node.tools.status_page.scenes import scene


@pytest.mark.parametrize(
    ("name", "state", "ready", "sentence"),
    [
        ("in-step", State.SYNCED, True, "synced: in step with L1 block "),
        ("syncing", State.SYNCING, False, "syncing: 2h59m behind, about "),
        ("blobs-missing", State.WAITING, False, "waiting: blobs: BLOB-EXPIRED: "),
        ("process-killed", State.WAITING, False, "waiting: derivation: PROCESS-SILENT: no status for "),
        ("l1-throttled", State.WAITING, False, "waiting: l1: L1-THROTTLED: L1 latest block: "),
    ],
)
def test_states(name: str, state: State, ready: bool, sentence: str) -> None:
    result = scene(name)
    status = result.status
    assert (status.state, status.ready) == (state, ready)
    assert status.sentence.startswith(sentence)
    assert len(result.history.columns().time) == 360
    throttled = [endpoint.state is EndpointState.THROTTLED for endpoint in status.endpoints or ()]
    assert any(throttled) is (name == "l1-throttled")
    assert any(process.up is False for process in status.processes or ()) is (name == "process-killed")
    assert (status.progress.limited_by == "l1") is (name == "syncing")
    assert status.drops_1h == 2
