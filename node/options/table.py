"""The option table: every option of the node, in the order of the help text."""

from rollup_node.node.options.chain import NETWORK, OVERRIDES
from rollup_node.node.options.connection import L1, L2
from rollup_node.node.options.option import AnyOption, Section
from rollup_node.node.options.peers import PEER_DETAILS, PEERS
from rollup_node.node.options.roles import ALT_DA, EXPERIMENTAL, INTEROP, SEQUENCER, SERVICES
from rollup_node.node.options.service import LOGGING, METRICS, PROCESS, RPC, STATUS

SECTIONS: tuple[Section, ...] = (
    L1,
    L2,
    NETWORK,
    OVERRIDES,
    SEQUENCER,
    LOGGING,
    RPC,
    METRICS,
    STATUS,
    PROCESS,
    PEERS,
    PEER_DETAILS,
    SERVICES,
    ALT_DA,
    INTEROP,
    EXPERIMENTAL,
)

OPTIONS: dict[str, AnyOption] = {option.name: option for section in SECTIONS for option in section.options}
"""All options by name, without dashes."""

FLAGS = {name: option for option in OPTIONS.values() for name in option.names}
"""All options by each of their names."""

SHARED_VARIABLE = ("l1.beacon", "l1.beacon.fetch-all-sidecars")
"""Two options that share the variable of the first: a boolean value in it sets the second [OPT9]."""
