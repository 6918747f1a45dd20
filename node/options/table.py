"""THE OPTION TABLE: every option of the node, in the order of the help text."""

from rollup_node.node.options.chain import NETWORK, OVERRIDES
from rollup_node.node.options.connection import L1, L2
from rollup_node.node.options.model import Option, Section
from rollup_node.node.options.peers import PEER_DETAILS, PEERS
from rollup_node.node.options.roles import ALT_DA, EXPERIMENTAL, INTEROP, SEQUENCER, SERVICES
from rollup_node.node.options.service import LOGGING, METRICS, PROCESS, RPC

SECTIONS: tuple[Section, ...] = (
    L1,
    L2,
    NETWORK,
    OVERRIDES,
    SEQUENCER,
    LOGGING,
    RPC,
    METRICS,
    PROCESS,
    PEERS,
    PEER_DETAILS,
    SERVICES,
    ALT_DA,
    INTEROP,
    EXPERIMENTAL,
)

OPTIONS: dict[str, Option] = {option.name: option for section in SECTIONS for option in section.options}
"""By name, without dashes."""

VARIABLE_PREFIX = "NODE_"
BOOLEAN_TWIN = ("l1.beacon", "l1.beacon.fetch-all-sidecars")
"""The two options of one documented variable: a boolean value in it is meant for the second."""
