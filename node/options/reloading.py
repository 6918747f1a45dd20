"""Which options a running node takes over when it reads its options again [LIF35]."""

from rollup_node.node.options.option import AnyOption
from rollup_node.node.options.table import OPTIONS
from rollup_node.node.options.values import Values
from rollup_node.stages.blobs.config import BlobsConfig, DaServerConfig
from rollup_node.stages.l1.config import L1Config
from rollup_node.stages.p2p.config import SignerConfig

RELOADED_CONFIGS = (L1Config, BlobsConfig, DaServerConfig, SignerConfig)
"""All options of these configurations are taken over."""
RELOADED = frozenset(
    {
        *("log.level", "rpc.corsdomain", "rpc.jwt-secret", "rpc.vhosts"),
        *("rpc.ready-l1-lag", "rpc.ready-safe-age", "rpc.ready-unsafe-age"),
        *("l2.jwt-secret", "l2.jwt-secret-encoded", "l2.engine-rpc-timeout", "sequencer.max-safe-lag"),
        *("conductor.rpc", "conductor.rpc-timeout"),
        *("p2p.static", "p2p.bootnodes", "p2p.netrestrict", "p2p.sequencer.key", "p2p.sequencer.key.path"),
        *("p2p.ban.duration", "p2p.ban.peers", "p2p.ban.threshold", "p2p.gossip.timestamp.threshold"),
    }
)
"""Others that are taken over."""


def is_reloaded(option: AnyOption) -> bool:
    """Whether a running node takes over a new value of the option."""
    field = option.config_field
    return option.name in RELOADED or (field is not None and field[0] in RELOADED_CONFIGS)


def changed_options(old: Values, new: Values) -> list[str]:
    """Return the options whose value differs, or that only one of the two gives, in the order of the table."""
    return [name for name in OPTIONS if (old.given(name), old[name]) != (new.given(name), new[name])]


def with_reloaded(old: Values, new: Values) -> Values:
    """Return the old values, with the new ones of the options that are taken over."""
    sources = {name: new if is_reloaded(option) else old for name, option in OPTIONS.items()}
    return Values({name: source.fields[name] for name, source in sources.items() if name in source.fields})
