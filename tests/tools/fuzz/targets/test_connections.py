"""Targets of connections: what they accept, and that a crash behind a connection is a failure."""

import pytest

from rollup_node.stages.rpc.process import http_server
from rollup_node.tools.fuzz.targets.connections import _ANSWERS, _REQUESTS, TARGETS


def test_valid_inputs_are_accepted() -> None:
    run = TARGETS["http-request"].run
    statuses = {str(run(request))[11:14] for request in _REQUESTS}
    assert statuses == {"200", "204", "403"}
    assert TARGETS["web-socket"].run(b"\n".join(_ANSWERS)) == (["answered", "answered"], 0, True)


def test_a_crash_of_a_handler_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    def crash(*_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(http_server, "_rejection", crash)
    with pytest.raises(ZeroDivisionError):
        TARGETS["http-request"].run(_REQUESTS[0])
