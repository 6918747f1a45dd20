"""Rules between options [OPT36 to OPT60], and features that this version lacks."""

import pytest

from rollup_node.node.options.errors import OptionError
from rollup_node.node.options.option import AnyOption
from rollup_node.node.options.parsing import parse_options
from rollup_node.node.options.rules import check_options, option_warnings, peer_scoring
from rollup_node.node.options.table import OPTIONS
from rollup_node.node.options.values import Values

RELOAD = "--l1.runtime-config-reload-interval=5m"
NEEDED = ("--l2=http://127.0.0.1:8551", "--network=op-sepolia")


def values_of(*words: str) -> Values:
    return parse_options([*NEEDED, *words], {}).values


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("--l1=",), "flag l1 is required"),
        (("--l2=http://a", "--l1.rpc-max-batch-size=0"), "batch size is invalid or unreasonable"),
        (("--l1.rpc-max-batch-size=501",), "batch size is invalid or unreasonable: flag --l1.rpc-max-batch-size is"),
        (("--l1.rpc-rate-limit=-1",), "rate limit cannot be negative"),
        (("--l1.max-concurrency=0",), "max concurrent requests cannot be less than 1"),
        (("--l1.cache-size=1000001",), "cache size is dangerously large"),
        (("--l2.engine-rpc-timeout=0s",), "flag --l2.engine-rpc-timeout must be more than 0"),
        (("--sequencer.enabled", "--sequencer.l1-confs=151"), "flag --sequencer.l1-confs is 151, beyond"),
        (("--metrics.enabled", "--metrics.port=65536"), "invalid metrics port"),
        (("--pprof.enabled", "--pprof.port=-1"), "invalid pprof port"),
        (("--p2p.listen.tcp=70000",), "port out of range"),
        (("--p2p.listen.udp=1023",), "port is reserved for system"),
        (("--p2p.advertise.tcp=-1",), "port out of range"),
        (("--p2p.peers.lo=0",), "peers lo/hi tides are invalid"),
        (("--p2p.peers.lo=31",), "peers lo/hi tides are invalid"),
        (("--p2p.gossip.mesh.d=0",), "mesh D param must not be 0 or exceed 1000"),
        (("--p2p.gossip.mesh.dlazy=1001",), "mesh D param must not be 0 or exceed 1000"),
        (("--p2p.security=none,noise",), "cannot mix secure transport protocols with no-security"),
        (("--p2p.peerstore.path=",), "peerstore path must be specified, use 'memory'"),
        (("--p2p.scoring=heavy",), 'unknown p2p scoring level "heavy"'),
        (("--p2p.scoring.peers=heavy",), 'unknown p2p scoring level "heavy"'),
        (
            (f"--p2p.sequencer.key={'11' * 32}", "--signer.endpoint=http://s", f"--signer.address=0x{20 * '11'}"),
            "cannot specify both a private key and a remote signer for sequencer p2p",
        ),
        (("--signer.endpoint=http://s",), "signer endpoint and address must both be set or not set"),
        ((f"--signer.address=0x{20 * '11'}",), "signer endpoint and address must both be set or not set"),
        (("--signer.tls.key=",), "signer endpoint with TLS needs all of"),
        (("--conductor.enabled",), "sequencer must be enabled when conductor is enabled"),
        (
            ("--conductor.enabled", "--sequencer.enabled", "--conductor.rpc-timeout=0s"),
            "flag --conductor.rpc-timeout must be more than 0",
        ),
        (("--altda.enabled",), "altDA config error: no DA server"),
        (("--altda.enabled", "--altda.da-server=ftp://x"), "altDA config error: flag --altda.da-server is not"),
        (("--altda.enabled", "--altda.da-server=http://[x"), "altDA config error: flag --altda.da-server is not"),
        (("--l2.engine-sync", "--syncmode=execution-layer"), "cannot set both --l2.engine-sync and --syncmode"),
        (("--syncmode.offset-el-safe=-1s",), "flag --syncmode.offset-el-safe must be at least 0"),
        (("--syncmode.req-resp", "--p2p.sync.req-resp=false"), "cannot set --syncmode.req-resp=true and"),
        (("--interop.rpc.addr=0.0.0.0",), "interop RPC server requires JWT setup, but no JWT path was specified"),
    ],
)
def test_a_broken_rule_is_named(words: tuple[str, ...], text: str) -> None:
    with pytest.raises(OptionError) as caught:
        check_options(values_of(*words))
    assert str(caught.value).startswith(text)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "words",
    [
        (),
        ("--rollup.halt=none",),
        ("--safedb.path=", "--rpc.admin-state=", "--interop.rpc.addr=", "--signer.endpoint=", "--p2p.static="),
        ("--pprof.enabled=false", "--conductor.enabled=false", "--altda.enabled=false"),
        ("--syncmode=consensus-layer",),
        ("--syncmode=execution-layer", "--l2.enginekind=reth", "--syncmode.offset-el-safe=0s"),
        ("--l2.engine-sync",),
        ("--p2p.disable", "--p2p.static=a", "--p2p.listen.tcp=1", "--p2p.scoring=x"),
        ("--p2p.sync.req-resp=false",),
        ("--p2p.listen.tcp=9999", "--p2p.nat", "--p2p.peers.hi=50", "--p2p.scoring="),
        ("--altda.da-server=http://da", "--conductor.rpc=http://c", "--interop.rpc.port=1"),
        ("--sequencer.l1-confs=200",),
        ("--conductor.enabled", "--sequencer.enabled", "--conductor.rpc=https://c:8547", "--conductor.rpc-timeout=2s"),
    ],
)
def test_these_values_pass(words: tuple[str, ...]) -> None:
    check_options(values_of(*words))


def test_every_option_alone_at_its_default_passes() -> None:
    needed = {word[2:].partition("=")[0] for word in NEEDED} | {"config"}
    for name, option in OPTIONS.items():
        if option.default is not None and name not in needed:
            check_options(values_of(f"--{name}={option.default}"))


def test_options_without_effect_give_a_warning() -> None:
    values = values_of("--snapshotlog.file=x", "--heartbeat.enabled", "--syncmode.offset-el-safe=1h", RELOAD)
    assert list(option_warnings(values)) == [
        "flag --snapshotlog.file: it has no effect any more",
        "flag --heartbeat.enabled: it has no effect any more",
        "flag --syncmode.offset-el-safe: it acts only with --syncmode=execution-layer",
    ]
    assert list(option_warnings(values_of("--p2p.disable", RELOAD))) == [
        f"flag {RELOAD[:-3]}: the runtime config serves the peer-to-peer network, which is switched off"
    ]
    assert list(option_warnings(values_of())) == []
    assert list(option_warnings(values_of("--syncmode=execution-layer", "--syncmode.offset-el-safe=1h"))) == []


@pytest.mark.parametrize("name", [name for name, option in OPTIONS.items() if option.help == "No effect."])
def test_each_option_without_effect_says_so(name: str) -> None:
    value = OPTIONS[name].default or "http://127.0.0.1:1"
    (warning,) = option_warnings(values_of(f"--{name}={value}"))
    assert warning.startswith(f"flag --{name}: ")


@pytest.mark.parametrize("option", [option for option in OPTIONS.values() if option.secret], ids=lambda one: one.name)
def test_a_secret_on_the_command_line_is_a_warning_without_it(option: AnyOption) -> None:
    """[OPT88] A variable is read by this user alone."""
    text = "X-Key: 5eb4" if "header" in option.name else "5eb4" * 16
    text = "key=5eb4" if option.name == "signer.header" else text
    (line,) = (line for line in option_warnings(values_of(f"--{option.name}={text}")) if "secret" in line)
    assert line.startswith(f"flag --{option.name}: ") and "5eb4" not in line
    values = parse_options(NEEDED, {option.variable: text}).values
    assert not list(option_warnings(values))


def test_warnings_about_the_remote_signer() -> None:
    address = f"--signer.address={20 * '11'}"
    assert list(option_warnings(values_of("--signer.endpoint=http://s", address))) == [
        "flag --signer.endpoint: the connection to the remote signer is not encrypted, use https://"
    ]
    assert list(option_warnings(values_of("--signer.endpoint=https://s", address, "--p2p.disable"))) == [
        "flag --signer.endpoint: blocks are signed for the peer-to-peer network, which is switched off"
    ]
    assert list(option_warnings(values_of("--signer.endpoint=https://s", address))) == []


@pytest.mark.option("altda.da-service", "altda.put-timeout")
def test_warnings_about_writing_to_a_da_server() -> None:
    """A node only reads [ADA2]."""
    enabled = ("--altda.enabled", "--altda.da-server=http://da")
    assert list(option_warnings(values_of(*enabled, "--altda.da-service", "--altda.put-timeout=5s"))) == [
        "flag --altda.da-service: it is for batchers, a node only reads from the DA server",
        "flag --altda.put-timeout: it is for batchers, a node only reads from the DA server",
    ]
    assert list(option_warnings(values_of(*enabled, "--altda.da-service=false", "--altda.get-timeout=5s"))) == []


@pytest.mark.option("p2p.scoring.peers", "p2p.scoring.topics")
def test_old_scoring_names_count_only_without_the_present_one() -> None:
    assert peer_scoring(values_of()) == "light"
    assert peer_scoring(values_of("--p2p.scoring.peers=none")) == "none"
    assert peer_scoring(values_of("--p2p.scoring.topics=none")) == "none"
    assert peer_scoring(values_of("--p2p.scoring.topics=none", "--p2p.scoring.peers=light")) == "light"
    assert peer_scoring(values_of("--p2p.scoring.peers=none", "--p2p.scoring=light")) == "light"
