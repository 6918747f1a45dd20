"""op-supernode's options become those of a node of one of its chains."""

import re
import subprocess
from pathlib import Path

import pytest

from rollup_node.node.options.errors import WrongOptions
from rollup_node.node.options.supernode import read_supernode_options
from rollup_node.tools.convert.conversion import toml_lines
from rollup_node.tools.convert.op_supernode import ALONE, RENAMED, convert, convert_all
from tests.support.foreign.op_programs import find_program
from tests.tools.convert.test_op_node import source

SHARED = ("--chains=11155420,1301", "--l1=http://127.0.0.1:1", "--l1.beacon=http://127.0.0.1:2", "--data-dir=/d/")
OP = ("--vn.11155420.network=op-sepolia", "--vn.11155420.l2=http://127.0.0.1:3")
UNICHAIN = ("--vn.1301.network=unichain-sepolia", "--vn.1301.l2=http://127.0.0.1:4")
ALL = ("--vn.all.l2.jwt-secret=jwt.hex", "--vn.all.l1.cache-size=7", "--vn.1301.l1.cache-size=8")


def converted(chain: str, *words: str, **variables: str) -> dict[str, str]:
    lines = toml_lines(convert(source(*words, **variables), chain).options(), hide=False)
    return dict(line.replace('"', "", 2).split(" = ", 1) for line in lines if not line.startswith("#"))


def errors(chain: str, *words: str) -> tuple[str, ...]:
    with pytest.raises(WrongOptions) as error:
        convert(source(*words), chain).options()
    return error.value.lines


def test_a_chain_overrides_all_of_them() -> None:
    words = (*SHARED, *OP, *UNICHAIN, *ALL, "--dependency-set=/set.json", "--disable-p2p")
    first, second = converted("11155420", *words), converted("1301", *words)
    assert (first["l1.cache-size"], second["l1.cache-size"]) == ("7", "8")
    assert (first["network"], second["network"]) == ('"op-sepolia"', '"unichain-sepolia"')
    assert first["safedb.path"] == '"/d/safedb-11155420.sqlite"' and first["p2p.disable"] == "true"
    assert first["interop.dependency-set"] == '"/set.json"' and first["l1"] == '["http://127.0.0.1:1"]'


def test_variables() -> None:
    result = converted(
        "11155420",
        OP_SUPERNODE_CHAINS="11155420",
        OP_SUPERNODE_L1_ETH_RPC="http://127.0.0.1:1",
        OP_SUPERNODE_L1_BEACON="http://127.0.0.1:2",
        OP_SUPERNODE_VN_ALL_L2_ENGINE_AUTH="jwt.hex",
        OP_SUPERNODE_VN_ALL_L2_ENGINE_RPC="http://127.0.0.1:3",
        OP_SUPERNODE_VN_ALL_NETWORK="op-sepolia",
    )
    assert (result["l2"], result["network"]) == ('"http://127.0.0.1:3"', '"op-sepolia"')


def test_what_has_no_counterpart_or_no_effect_is_named() -> None:
    more = ("--vn.all.log.level=debug", "--interop.activation-timestamp=1", "--log.level=warn")
    words = ("--chains", "11155420", *SHARED[1:], *OP, ALL[0], *more)
    conversion = convert(source(*words), "11155420")
    notes = "\n".join(conversion.notes)
    assert "vn.all.log.level is left out: op-supernode ignores it for a chain" in notes
    assert "interop.activation-timestamp is left out: a node of one chain verifies no messages" in notes
    assert converted("11155420", *words)["log.level"] == '"warn"'


def test_what_it_refuses_has_its_line() -> None:
    assert errors("5", *SHARED, *OP)[0].startswith('op-supernode runs no chain "5"')
    assert errors("901", "--chains=901,901")[0] == "f, line 1: op-supernode refuses chain 901 twice"
    assert errors("abc", "--chains=abc")[0] == "f, line 1: op-supernode refuses the chain id 'abc'"
    assert errors("11155420", *SHARED, *OP, ALL[0], "--vn.902.l2=http://a")[0] == (
        "f, line 8: op-supernode has no flag --vn.902.l2; did you mean --vn.1301.l2?"
    )
    assert errors("1301", *SHARED) == (
        *(f"op-supernode requires {name}: give the file that sets it too" for name in ("l2", "l2.jwt-secret")),
        "op-supernode requires network or rollup.config: give the file that sets it too",
    )


def test_options_of_a_chain_are_not_read_where_a_variable_names_the_chains() -> None:
    conversion = convert(source(OP_SUPERNODE_CHAINS="10", OP_SUPERNODE_VN_10_NETWORK="op-mainnet"), "10")
    assert "e, line 2: OP_SUPERNODE_VN_10_NETWORK is left out: op-supernode does not read it" in conversion.notes


def test_all_chains_become_a_file_of_a_supernode(tmp_path: Path) -> None:
    more = ("--vn.all.safedb.path=/x", "--vn.1301.p2p.netrestrict=10.0.0.0/8", "--vn.1301.p2p.netrestrict=11.0.0.0/8")
    conversion, lines = convert_all(source(*SHARED, *OP, *UNICHAIN, *ALL, *more, "--disable-p2p"), hide=False)
    file = tmp_path / "supernode.toml"
    file.write_text("\n".join(lines))
    options = read_supernode_options([f"--config={file}"], {})
    assert options.errors == () and list(options.chains) == ["11155420", "1301"]
    assert options.own["data-dir"] == "/d/" and options.own["disable-p2p"]
    assert [values["l1.cache-size"] for values in options.chains.values()] == [900, 900], "as op-supernode shares them"
    assert options.chains["1301"]["p2p.netrestrict"] == ("10.0.0.0/8", "11.0.0.0/8")
    assert [values["l2"] for values in options.chains.values()] == ["http://127.0.0.1:3", "http://127.0.0.1:4"]
    assert any("vn.all.safedb.path is ignored" in note and "f, line 12" in note for note in conversion.notes)


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (("--vn.902.l2=http://a",), "f, line 9: op-supernode has no flag --vn.902.l2"),
        (("--vn.1301.syncmode=foo",), "f, line 9: invalid value"),
        (("--vn.1301.l1.trustrpc=maybe",), "f, line 9: op-node refuses the value 'maybe'"),
    ],
)
def test_what_is_wrong_in_it_has_its_line(words: tuple[str, ...], error: str) -> None:
    with pytest.raises(WrongOptions) as raised:
        convert_all(source(*SHARED, *OP, *UNICHAIN, *words), hide=False)
    assert raised.value.lines[0].startswith(error)
    assert "op-supernode requires l2.jwt-secret for chain 1301" in raised.value.lines or len(raised.value.lines) == 1


def test_its_own_flags_are_those_of_the_program() -> None:
    """Those of its help's first column; an older one takes the dependency set from its chains alone."""
    text = subprocess.run([find_program("op-supernode"), "--help"], capture_output=True, text=True, timeout=20).stdout
    flags = set(re.findall(r"^ +--([\w.-]+)", text, re.MULTILINE))
    own = {flag for flag in flags if not flag.startswith(("vn.", "l1", "log.", "metrics.", "pprof.", "rpc."))}
    assert own - {"help", "version"} | {"dependency-set"} == {*ALONE, *RENAMED}
