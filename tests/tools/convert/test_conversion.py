"""Settings in the making: flags over variables, notes, and errors with the lines of what they are about."""

import tomllib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rollup_node.node.options.errors import WrongOptions
from rollup_node.node.options.parsing import parse_options
from rollup_node.node.options.supernode import read_supernode_options
from rollup_node.node.options.table import OPTIONS
from rollup_node.node.options.values import GivenTexts, NodeOptions, Values
from rollup_node.node.system.exit_codes import SetupError
from rollup_node.tools.convert.conversion import (
    Conversion,
    Given,
    masked_address,
    read_flags,
    read_variables,
    toml_lines,
)
from tests.tools.convert.test_op_node import source

WORDS = (
    *("--l1=http://a,wss://b/KEY", "--l1.trustrpc", "--rpc.port=007", "--l1.rpc-rate-limit=1.5", "--log.level=3"),
    *("--p2p.peers.grace=1h", "--rpc.corsdomain=a,b", "--rpc.corsdomain=c", "--signer.endpoint=", "--p2p.ban.peers=f"),
)


def node(fields: dict[str, GivenTexts]) -> NodeOptions:
    return NodeOptions({"": Values(fields)})


def test_a_file_has_the_values_of_the_words(tmp_path: Path) -> None:
    expected = parse_options(WORDS, {}).values
    file = tmp_path / "node.toml"
    file.write_text("\n".join(toml_lines(NodeOptions({"": expected}), hide=False)))
    values = parse_options([f"--config={file}"], {}).values
    assert {name: values[name] for name in OPTIONS if name != "config"} == {
        name: expected[name] for name in OPTIONS if name != "config"
    }
    assert tomllib.loads(file.read_text())["rpc.corsdomain"] == ["a", "b", "c"]


def test_secrets_are_comments_and_keys_are_hidden() -> None:
    values = parse_options([*WORDS, "--p2p.sequencer.key=" + 32 * "5a", "--signer.header=a=SECRET"], {}).values
    text = "\n".join(toml_lines(NodeOptions({"": values}), hide=True))
    assert "5a5a" not in text and "SECRET" not in text and "KEY" not in text
    assert '# "p2p.sequencer.key" is a secret, and is not copied from flag --p2p.sequencer.key' in text


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_any_text_is_written_as_toml(text: str) -> None:
    lines = toml_lines(node({"altda.da-server": GivenTexts((text,), "f", False)}), hide=False)
    written = tomllib.loads("\n".join(lines)) if text.isprintable() else {"altda.da-server": text}
    assert written == {"altda.da-server": text}


def test_a_text_that_is_not_unicode_is_refused() -> None:
    with pytest.raises(SetupError, match="is not text in UTF-8"):
        list(toml_lines(node({"safedb.path": GivenTexts(("\udc80",), "f", False)}), hide=False))


def test_a_file_of_a_supernode_has_the_values_of_its_words(tmp_path: Path) -> None:
    """[SNO2] What chains share once, the rest by chain; a file does not name itself."""
    (tmp_path / "e.toml").write_text("# nothing")
    words = ("--chains=10,130", "--l1=http://a", "--vn.all.l2=http://b", "--vn.130.p2p.static=/ip4/1,/ip4/2")
    more = (
        "--rpc.port=7",
        f"--vn.10.p2p.sequencer.key={32 * '5a'}",
        "--disable-p2p",
        f"--config={tmp_path}/empty.toml",
    )
    expected = read_supernode_options((*words, *more), {})
    text = "\n".join(toml_lines(expected, hide=False))
    assert text.count('"l1" = ') == 1 and "5a5a" not in text and "e.toml" not in text
    (tmp_path / "supernode.toml").write_text(text)
    again = read_supernode_options([f"--config={tmp_path}/supernode.toml"], {})
    assert again.errors == () and again.own["disable-p2p"] and again.own["rpc.port"] == 7
    for group, values in expected.chains.items():
        same = {name for name in OPTIONS if name not in ("config", "p2p.sequencer.key")}
        assert {name: again.chains[group][name] for name in same} == {name: values[name] for name in same}


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("http://127.0.0.1:8545", "http://127.0.0.1:8545"),
        ("https://a/v3/KEY", "https://a/***"),
        ("wss://KEY@b", "wss://***@b"),
        ("https://a?key=KEY", "https://a/***"),
        ("http://[::1", "***"),
        ("enr://a/b", "enr://a/b"),
        ("/a/b.ipc", "/a/b.ipc"),
    ],
)
def test_an_address(text: str, shown: str) -> None:
    assert masked_address(text) == shown


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
