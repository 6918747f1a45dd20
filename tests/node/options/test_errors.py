"""How values are quoted in errors."""

import pytest

from rollup_node.node.options.errors import OptionError, did_you_mean, reject_end_of_options, shown, shown_url
from rollup_node.node.options.table import OPTIONS


def test_the_end_of_options_is_no_value() -> None:
    reject_end_of_options("-", "flag --l1")
    with pytest.raises(OptionError, match='invalid value "--" for flag --l1'):
        reject_end_of_options("--", "flag --l1")


@pytest.mark.parametrize(
    ("text", "quoted"), [("a b", '"a b"'), ('"', '"\\""'), ("a\nb", '"a\\nb"'), ("x" * 121, f'"{"x" * 120}"...')]
)
def test_values_are_quoted_escaped_and_cut(text: str, quoted: str) -> None:
    assert shown(text) == quoted


@pytest.mark.parametrize("rest", ["/k3y", "?key=k3y", "#k3y", "/a?b=k3y"])
def test_what_may_be_a_key_in_an_address_is_not_shown(rest: str) -> None:
    assert shown_url(f"http://user:k3y@[host{rest}") == '"http://***@[host/..."'


def test_the_nearest_name() -> None:
    assert did_you_mean("OP-Seplia", ["mode-sepolia", "op-sepolia"]) == "; did you mean op-sepolia?"
    assert did_you_mean("l1.becon", OPTIONS, prefix="--") == "; did you mean --l1.beacon?"
    assert did_you_mean("qqqq", OPTIONS) == ""
