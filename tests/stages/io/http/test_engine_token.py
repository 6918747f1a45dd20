"""The token of requests to an execution engine."""

import jwt
import pytest

from rollup_node.stages.io.http.engine_token import RequestHeaders

SECRET = b"\x42" * 32


@pytest.mark.fault("F43", "F58")
def test_the_token_lives_for_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [1_700_000_000.7]
    monkeypatch.setattr("time.time", lambda: now[0])
    headers = RequestHeaders("http://engine.example:8551", SECRET)
    first = headers()
    claims = jwt.decode(first["Authorization"].removeprefix("Bearer "), options={"verify_signature": False})
    assert claims == {"iat": 1_700_000_000}
    now[0] += 4
    assert headers() is first
    now[0] += 2
    assert headers() != first
    now[0] -= 3_600
    claims = jwt.decode(headers()["Authorization"][7:], options={"verify_signature": False})
    assert claims == {"iat": int(now[0])}, "also after the clock went back"


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("http://127.0.0.1:8551", {"Accept-Encoding": "identity"}),
        ("http://localhost", {"Accept-Encoding": "identity"}),
        ("http://[::1]:8551", {"Accept-Encoding": "identity"}),
        ("https://engine.example", {}),
        ("http://10.0.0.1:8551", {}),
        ("/run/engine.ipc", {}),
    ],
)
def test_answers_of_this_machine_are_not_compressed(url: str, expected: dict[str, str]) -> None:
    """[ENG46]"""
    assert RequestHeaders(url, None)() == expected
    assert RequestHeaders(url, SECRET)().keys() == {*expected, "Authorization"}
