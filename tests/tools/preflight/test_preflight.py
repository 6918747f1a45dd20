"""All checks in one run: bounded, and each for itself. What they find is in the tests of `rollup-node check`."""

import asyncio

import pytest

from rollup_node.node.checks.finding import Finding, FindingLevel
from rollup_node.node.setup.endpoint_checks import NodeEndpoints
from rollup_node.stages.messages.codes import Code
from rollup_node.tools.preflight import preflight as module
from rollup_node.tools.preflight.preflight import Subject, preflight
from tests.support.servers.checked_endpoints import ROLLUP, SECRET


def subject(l1: str, jwt: bytes = SECRET, needs_safe_blobs: bool = True) -> Subject:
    endpoints = NodeEndpoints(ROLLUP, (l1,), "http://127.0.0.1:1", jwt, "jwt.txt")
    return Subject(endpoints, None, None, [], {}, needs_safe_blobs)


def test_an_endpoint_that_never_answers_holds_up_no_other_check(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "CHECK_SECONDS", 0.3)

    async def run() -> list[Finding]:
        accepted: list[asyncio.StreamWriter] = []
        server = await asyncio.start_server(lambda _, writer: accepted.append(writer), "127.0.0.1", 0)
        async with server:
            port = server.sockets[0].getsockname()[1]
            try:
                return await preflight(subject(f"http://127.0.0.1:{port}"))
            finally:
                for writer in accepted:
                    writer.close()

    found = asyncio.run(run())
    late = {each.check: each for each in found if each.code is Code.NO_RESULT}
    assert any(check.startswith("L1 ") for check in late)
    assert all(each.level is FindingLevel.ERROR and each.text == "no result within 0.3 s" for each in late.values())
    assert any(each.code is Code.ENGINE_UNREACHABLE for each in found)


def test_a_bug_in_a_check_hides_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise ZeroDivisionError("by zero")

    monkeypatch.setattr(module, "check_files", fail)
    found = asyncio.run(preflight(subject("http://127.0.0.1:1")))
    (failed,) = [each for each in found if each.code is Code.NO_RESULT]
    assert (failed.check, failed.text) == ("files", "the check failed: ZeroDivisionError: by zero")
    assert {Code.L1_UNREACHABLE, Code.ENGINE_UNREACHABLE} <= {each.code for each in found}


def test_an_engine_that_syncs_by_itself_needs_no_old_blobs() -> None:
    found = asyncio.run(preflight(subject("http://127.0.0.1:1", b"", needs_safe_blobs=False)))
    texts = {each.check: each.text for each in found if each.level is FindingLevel.NOT_CHECKED}
    assert "syncs by itself" in texts["blobs of the safe head"]
    assert texts["engine 127.0.0.1:1"] == "there is no JWT secret to ask it with"
