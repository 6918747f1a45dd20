"""Values of options and their sources."""

from rollup_node.node.options.table import OPTIONS
from rollup_node.node.options.values import GivenTexts, Values


def given(text: str, *, split: bool = True) -> GivenTexts:
    return GivenTexts((text,), "variable NODE_X (--x)", split)


def test_defaults_hold_for_what_is_not_given() -> None:
    values = Values({})
    assert values["rpc.port"] == 9545 and values["l2"] is None and values["p2p.static"] == ()
    assert values["p2p.mux"] == ("yamux", "mplex")
    assert all(not values.given(name) for name in OPTIONS)
    assert values.source("rpc.port") == "flag --rpc.port"


def test_given_texts_are_parsed_and_keep_their_source() -> None:
    values = Values({"rpc.port": given("1"), "l2": given("http://e")})
    assert (values["rpc.port"], values["l2"]) == (1, "http://e")
    assert values.names_given() == ["l2", "rpc.port"], "in the order of the table"
    assert values.source("rpc.port") == "variable NODE_X (--x)"


def test_lists_are_split_where_they_may_be() -> None:
    assert Values({"p2p.static": given(" a, b,,")})["p2p.static"] == ("a", "b")
    assert Values({"signer.header": given("a=1,b=2", split=False)})["signer.header"] == (("a", "1,b=2"),)


def test_every_invalid_value_is_an_error_and_the_others_can_be_read() -> None:
    values = Values({"rpc.port": given("x"), "metrics.port": given("y"), "l2": given("http://e")})
    assert [error.split()[2] for error in values.errors] == ['"x"', '"y"']
    assert values["l2"] == "http://e"
