"""What operators give: chain configurations, options files and the values of options."""

from functools import cache
from io import StringIO
from random import Random

import orjson

from rollup_node.node.options.errors import OptionError, WrongOptions
from rollup_node.node.options.file import OptionsFile
from rollup_node.node.options.table import OPTIONS
from rollup_node.stages.p2p.addresses.peer_id import NetworkIdentity
from rollup_node.stages.p2p.peering.peer_info import StaticPeerError, parse_static_peers
from rollup_node.stages.protocol.config import ConfigError, check_config
from rollup_node.stages.protocol.config_json import parse_rollup_config, rollup_config_object
from rollup_node.stages.protocol.l1_chains import L1ChainError, parse_l1_chain
from rollup_node.tools.fuzz.targets.chain_seeds import L1_CHAIN, rollup
from rollup_node.tools.fuzz.targets.target import JSON_TOKENS, FuzzTarget, one_of

OWN = NetworkIdentity(b"\x01" * 32).peer_id


def rollup_config(data: bytes) -> object:
    """Return a rollup.json: what is read encodes to one that is read as the same."""
    config = parse_rollup_config(data).config
    assert parse_rollup_config(orjson.dumps(_numbers_as_texts(rollup_config_object(config)))).config == config
    check_config(config)
    return "valid"


def _numbers_as_texts(raw: object) -> object:
    """orjson writes no numbers of more than 64 bits."""
    if isinstance(raw, dict):
        return {key: _numbers_as_texts(value) for key, value in raw.items()}
    return orjson.Fragment(str(raw)) if type(raw) is int else raw


def l1_chain_config(data: bytes) -> object:
    """Return the configuration of an L1 chain, or its genesis."""
    return len(parse_l1_chain(data, L1_CHAIN).blob_forks)


def options_file(data: bytes) -> object:
    """Return an options file in TOML; the errors are one line each."""
    try:
        return min(3, len(OptionsFile().parse(StringIO(data.decode("utf-8", "replace")))))
    except (OptionError, WrongOptions) as error:
        assert len(str(error).splitlines()) <= 1 + str(error).count("; ") + len(getattr(error, "errors", ()))
        raise


def option_value(data: bytes) -> object:
    """Return a value of an option, behind its name and `=`. The type of the option refuses by ValueError."""
    name, _, text = data.decode("utf-8", "surrogateescape").partition("=")
    option = OPTIONS.get(name)
    if option is None:
        return "no such option"
    return name, type(option.value_type.read(text)).__name__


def static_peers(data: bytes) -> object:
    """Return the value of `p2p.static`."""
    return min(3, len(parse_static_peers(data.decode("utf-8", "replace").split(","), OWN)))


_ADDRESS = "0x" + "11" * 20
_ALT_DA: dict[str, object] = {"da_challenge_contract_address": _ADDRESS, "da_commitment_type": "KeccakCommitment"}
_ALT_DA |= {"da_challenge_window": 5, "da_resolve_window": 6}
_GENESIS_SYSTEM = {"batcherAddr": _ADDRESS, "scalar": "0x" + "01" * 32, "gasLimit": 30_000_000}


@cache
def _rollup_configs() -> list[bytes]:
    result = rollup_config_object(rollup())
    small = {key: value for key, value in result.items() if not key.endswith("_time") or key == "block_time"}
    small["genesis"] = {"l1": {"hash": "0x" + "22" * 32, "number": 5}, "l2": {"hash": "0x" + "33" * 32, "number": 0}}
    small["genesis"] |= {"l2_time": 1_700_000_000, "system_config": _GENESIS_SYSTEM}
    return [orjson.dumps(result), orjson.dumps(small | {"alt_da": _ALT_DA, "ecotone_time": 1_700_000_000})]


_SCHEDULE = {"cancun": {"target": 3, "max": 6, "baseFeeUpdateFraction": 3_338_477}}
_CHAIN = {"chainId": L1_CHAIN, "cancunTime": 0, "blobSchedule": _SCHEDULE, "londonBlock": 0}
_OPTIONS_FILE = b"""network = "op-sepolia"
[l1]
value = "http://127.0.0.1:8545"
beacon = "http://127.0.0.1:5052"
trustrpc = false
[p2p]
static = ["/ip4/127.0.0.1/tcp/9222/p2p/x"]
"peers.lo" = 4
"""
_VALUES = (
    *(
        "1",
        "true",
        "10s",
        "0x" + "11" * 32,
        "127.0.0.1:80",
        "http://127.0.0.1:1/a",
        "enr:-a",
        "info",
        "10.0.0.0/8",
        "-1",
    ),
    *("1h2m", "a: b", "json", "file.txt", "5,6", "Full", "9" * 30, "1_0", "", "::1", "ws://h:1", "1e3", "0x"),
)


def _option(chance: Random) -> bytes:
    return f"{chance.choice(list(OPTIONS))}={chance.choice(_VALUES)}".encode()


OPERATOR = "operator"
TOML_TOKENS = (b"[", b'"""', b"nan", b"1979-05-27", b"0x" + b"f" * 300, b"{}", b"[1]", b"true", b"1_000", b"'a'")
TARGETS = {
    "rollup-config": FuzzTarget(
        OPERATOR, rollup_config, lambda chance: chance.choice(_rollup_configs()), (ConfigError,), JSON_TOKENS
    ),
    "l1-chain-config": FuzzTarget(
        *(OPERATOR, l1_chain_config, one_of([orjson.dumps(_CHAIN), orjson.dumps({"config": _CHAIN, "alloc": {}})])),
        *((L1ChainError,), JSON_TOKENS),
    ),
    "options-file": FuzzTarget(
        OPERATOR, options_file, one_of([_OPTIONS_FILE]), (OptionError, WrongOptions), TOML_TOKENS
    ),
    "option-value": FuzzTarget(OPERATOR, option_value, _option, (ValueError,)),
    "static-peers": FuzzTarget(
        *(OPERATOR, static_peers),
        one_of([b"/ip4/127.0.0.1/tcp/9222/p2p/16Uiu2HAmGo2VKn4EbuFEx3JCvyqSq52vAAVK8NQ7qFxTDoWQGKnT"]),
        (StaticPeerError,),
    ),
}
"""The targets by name."""
