"""op-supernode's options become those of a node of one of its chains."""

import subprocess

import pytest

from rollup_node.node.options.errors import WrongOptions
from rollup_node.tools.convert.op_supernode import ALONE, RENAMED, convert
from rollup_node.tools.convert.options_file import toml_lines
from tests.support.foreign.op_programs import find_program
from tests.tools.convert.test_op_node import source

SHARED = ("--chains=11155420,1301", "--l1=http://127.0.0.1:1", "--l1.beacon=http://127.0.0.1:2", "--data-dir=/d/")
OP = ("--vn.11155420.network=op-sepolia", "--vn.11155420.l2=http://127.0.0.1:3")
UNICHAIN = ("--vn.1301.network=unichain-sepolia", "--vn.1301.l2=http://127.0.0.1:4")
ALL = ("--vn.all.l2.jwt-secret=jwt.hex", "--vn.all.l1.cache-size=7", "--vn.1301.l1.cache-size=8")


def converted(chain: str | None, *words: str, **variables: str) -> dict[str, str]:
    lines = toml_lines(convert(source(*words, **variables), chain).values(), hide=False)
    return dict(line.replace('"', "", 2).split(" = ", 1) for line in lines if not line.startswith("#"))


def errors(chain: str | None, *words: str) -> tuple[str, ...]:
    with pytest.raises(WrongOptions) as error:
        convert(source(*words), chain).values()
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
    conversion = convert(source(*words), None)
    notes = "\n".join(conversion.notes)
    assert "vn.all.log.level is left out: op-supernode ignores it for a chain" in notes
    assert "interop.activation-timestamp is left out: this node verifies no messages" in notes
    assert converted(None, *words)["log.level"] == '"warn"'


def test_what_it_refuses_has_its_line() -> None:
    assert errors(None, *SHARED, *OP, *UNICHAIN, *ALL)[0] == (
        "op-supernode runs several chains: choose one of 11155420, 1301 with --chain"
    )
    assert errors("5", *SHARED, *OP)[0].startswith('op-supernode runs no chain "5"')
    assert errors("901", "--chains=901,901")[0] == "f, line 1: op-supernode refuses chain 901 twice"
    assert errors(None, "--chains=abc")[0] == "f, line 1: op-supernode refuses the chain id 'abc'"
    assert errors("11155420", *SHARED, *OP, ALL[0], "--vn.902.l2=http://a")[0] == (
        "f, line 8: op-supernode has no flag --vn.902.l2; did you mean --vn.1301.l2?"
    )
    assert errors("1301", *SHARED) == (
        *(f"op-supernode requires {name}: give the file that sets it too" for name in ("l2", "l2.jwt-secret")),
        "op-supernode requires network or rollup.config: give the file that sets it too",
    )


def test_options_of_a_chain_are_not_read_where_a_variable_names_the_chains() -> None:
    conversion = convert(source(OP_SUPERNODE_CHAINS="10", OP_SUPERNODE_VN_10_NETWORK="op-mainnet"), None)
    assert "e, line 2: OP_SUPERNODE_VN_10_NETWORK is left out: op-supernode does not read it" in conversion.notes


def test_its_own_flags_are_those_of_the_program() -> None:
    text = subprocess.run([find_program("op-supernode"), "--help"], capture_output=True, text=True, timeout=20).stdout
    flags = {word.strip(",").removeprefix("--") for word in text.split() if word.startswith("--")}
    own = {flag for flag in flags if not flag.startswith(("vn.", "l1", "log.", "metrics.", "pprof.", "rpc."))}
    assert own - {"help", "version"} == {*ALONE, *RENAMED}
