"""Values of options and their sources."""

import functools
import shutil
from pathlib import Path

import msgspec
import pytest

from rollup_node.node.options.option import AnyOption
from rollup_node.node.options.table import OPTIONS
from rollup_node.node.options.values import FIELD_OPTIONS, Values, build_config
from rollup_node.node.setup.reload import is_reloaded
from rollup_node.stages.blobs.config import BlobsConfig
from tests.node.setup.planning import JWT, prepare
from tests.support.engine.remote_signers import TlsSetUp


def test_a_value_of_another_type_is_a_bug() -> None:
    with pytest.raises(msgspec.ValidationError, match=r"Expected `float`, got `str` - at `\$\.timeout`"):
        build_config(BlobsConfig, Values({}), timeout="5")


def test_the_option_table_sets_each_field_once() -> None:
    names = ("L1", "Blobs", "DaServer", "Derivation", "Engine", "P2p", "Signer", "Rpc")
    assert {config.__name__ for config in FIELD_OPTIONS} == {*(f"{name}Config" for name in names), "LogSettings"}
    assert sum(map(len, FIELD_OPTIONS.values())) == sum(option.field is not None for option in OPTIONS.values())


SIGNER = (f"--signer.address={20 * '11'}", "--signer.endpoint=https://s:1")
NEEDED = {
    "conductor.enabled": ("--sequencer.enabled",),
    "conductor": ("--sequencer.enabled", "--conductor.enabled"),
    "signer": SIGNER,
    "rollup.halt": ("--network=op-mainnet",),
    "interop.rpc.addr": ("--interop.jwt-secret=secret",),
    "altda": ("--altda.enabled", "--altda.da-server=http://d", "--network=redstone-mainnet"),
}
"""What else must be given, by option or by the first part of its name."""

GENERATOR = (
    "79be667ef9dcbbac55a06295ce870b07029bfcdb2dce28d959f2815b16f81798"
    "483ada7726a3c4655da4fbfc0e1108a8fd17b448a68554199c47d08ffb10d4b8"
)
SAMPLES = {
    "bool": "true",
    "int": "77",
    "number": "7.5",
    "duration": "77s",
    "url": "http://sample:7",
    "list of url": "http://sample:7",
    "path": "memory",
    "string (IP address)": "127.0.0.77",
    "list of string": "sample",
    "string": "sample",
    "list of CIDR": "127.0.0.77/32",
    "l1.beacon.slot-duration-override": "7",
    "l2.jwt-secret": "other_jwt.txt",
    "l2.jwt-secret-encoded": "22" * 32,
    "rpc.jwt-secret": "other_jwt.txt",
    "l1.beacon-header": "X-Sample: 7",
    "p2p.sequencer.key": "77" * 32,
    "p2p.sequencer.key.path": "other_jwt.txt",
    "p2p.bootnodes": f"enode://{GENERATOR}@127.0.0.1:9222",
    "p2p.priv.raw": "77" * 32,
    "p2p.static": "/ip4/127.0.0.1/tcp/7/p2p/16Uiu2HAmB2zwbdqFhKcK6XvdMRBQHcqqxvGwq1aGRdVVFzDbRCgd",
    "p2p.gossip.mesh.lo": "7",
    "p2p.gossip.mesh.d": "9",
    "p2p.peers.lo": "7",
    "p2p.listen.tcp": "7777",
    "p2p.listen.udp": "7777",
    "p2p.advertise.tcp": "7777",
    "p2p.advertise.udp": "7777",
    "altda.da-server": "http://sample:7",
    "safedb.path": "safe-heads",
    "signer.address": "77" * 20,
    "signer.header": "x=7",
    "signer.tls.ca": "other/ca.crt",
    "signer.tls.cert": "other/tls.crt",
    "signer.tls.key": "other/tls.key",
    "log.level": "debug",
    "conductor.rpc": "http://sample:7",
}
"""Values that are no default, by option or by type."""


def sample_of(option: AnyOption) -> str:
    """Return a value that is not the default."""
    if option.value_type.allowed:
        return next(word for word in option.value_type.allowed if word != option.default)
    if option.default == "true":
        return "false"
    return SAMPLES.get(option.name) or SAMPLES[option.value_type.label]


def configurations(*words: str) -> dict[type, object]:
    """Return the configurations of a node with these words, by class."""
    node = prepare(*words)
    result = [config for config in vars(node.configs).values() if config is not None]
    result.append(node.settings.log)
    if node.configs.p2p is not None and node.configs.p2p.signer is not None:
        result.append(node.configs.p2p.signer)
    if node.configs.blobs is not None:
        result += node.configs.blobs.da_servers.values()
    return {type(config): config for config in result}


def write_tls_files(directory: Path) -> None:
    """The files of a remote signer under their default names, and once more in another folder."""
    (directory / "tls").mkdir()
    TlsSetUp(directory / "tls")
    for suffix in ("crt", "key"):
        shutil.copy(directory / "tls" / f"node.{suffix}", directory / "tls" / f"tls.{suffix}")
    shutil.copytree(directory / "tls", directory / "other")


@pytest.fixture(scope="module")
def node_directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the directory of a node with a remote signer, for all options."""
    directory = tmp_path_factory.mktemp("node")
    (directory / "node_jwt.txt").write_text(JWT.hex())
    write_tls_files(directory)
    return directory


@functools.cache
def configurations_without(*needed: str) -> dict[type, object]:
    """Those without the option that is tested."""
    return configurations(*needed)


@pytest.mark.parametrize(
    "name", [name for name, option in OPTIONS.items() if option.field is not None and not is_reloaded(option)]
)
def test_every_option_that_sets_a_field_changes_it(
    name: str, node_directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever else the table says: from the flag to the configuration that the process gets.

    Those that a reload takes over change it in tests/node/setup/test_reload.py."""
    monkeypatch.chdir(node_directory)
    option = OPTIONS[name]
    assert option.config_field is not None
    config, field = option.config_field
    needed = NEEDED.get(option.name) or NEEDED.get(option.name.split(".")[0]) or ()
    before = getattr(configurations_without(*needed)[config], field)
    after = getattr(configurations(*needed, f"--{option.name}={sample_of(option)}")[config], field)
    assert after != before
