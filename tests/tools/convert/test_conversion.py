"""Settings in the making: flags over variables, notes, and errors with the lines of what they are about."""

import pytest

from rollup_node.node.options.errors import WrongOptions
from rollup_node.tools.convert.conversion import Conversion, Given, read_flags, read_variables
from tests.tools.convert.test_op_node import source


def conversion(**texts: str) -> Conversion:
    result = Conversion("other-node")
    for line, (name, text) in enumerate(texts.items(), 1):
        result.add(name.replace("_", "."), Given(name, text, f"f, line {line}"))
    return result


def test_flags_are_read_as_go_reads_them() -> None:
    result = conversion()
    words = ("-a", "1", "--b", "--a=", "--b=false", "--a", "-x")
    read = [(setting.name, setting.text) for setting in read_flags(source(*words), {"a": False, "b": True}, result)]
    assert read == [("a", "1"), ("b", "true"), ("a", ""), ("b", "false"), ("a", "-x")] and result.errors == []


def test_variables_of_the_prefix_that_are_not_read_are_noted() -> None:
    result = conversion()
    read = list(read_variables(source(P_A="1", P_B="", P_C="2", OTHER="3"), "P_", {"P_A": "a", "P_B": "b"}, result))
    assert read == [Given("a", "1", "e, line 1", is_flag=False)]
    assert result.notes == ["e, line 3: P_C is left out: other-node does not read it"]


def test_a_default_stands_back() -> None:
    result = conversion(metrics_port="1")
    result.default("metrics.port", "2", "so")
    result.default("rpc.port", "3", "so")
    assert (result.text("metrics.port"), result.text("rpc.port")) == ("1", "3")
    assert result.notes == ["rpc.port is set to 3: so"]


def test_an_error_names_the_lines_of_what_its_rule_read() -> None:
    with pytest.raises(WrongOptions) as error:
        conversion(conductor_enabled="true", l2="x", network="op-sepolia").options()
    assert error.value.lines == (
        'invalid value "x" for l2 (f, line 2): expected an address such as http://127.0.0.1:8545, or the path of an IPC'
        " socket",
        "f, line 1: sequencer must be enabled when conductor is enabled: add --sequencer.enabled",
    )


def test_a_chain_that_a_start_would_refuse_is_refused() -> None:
    with pytest.raises(WrongOptions) as error:
        conversion(l2="http://a", network="op-foo").options()
    assert error.value.lines == ('f, line 2: invalid network: "op-foo"; rollup-node networks lists them',)
