"""How values are quoted in errors."""

import pytest

from rollup_node.node.options.errors import shown, shown_url


@pytest.mark.parametrize(
    ("text", "quoted"), [("a b", '"a b"'), ('"', '"\\""'), ("a\nb", '"a\\nb"'), ("x" * 121, f'"{"x" * 120}"...')]
)
def test_values_are_quoted_escaped_and_cut(text: str, quoted: str) -> None:
    assert shown(text) == quoted


@pytest.mark.parametrize("rest", ["/k3y", "?key=k3y", "#k3y", "/a?b=k3y"])
def test_what_may_be_a_key_in_an_address_is_not_shown(rest: str) -> None:
    assert shown_url(f"http://user:k3y@[host{rest}") == '"http://***@[host/..."'
