"""`rollup-node networks`: the built-in networks [CMD13], and the rollup config of one [CMD5, CMD10]."""

import os
import time
from collections.abc import Mapping, Sequence
from typing import Any

import orjson

from rollup_node.node.options.parsing import parse_options
from rollup_node.node.setup.chain import choose_chain
from rollup_node.node.setup.networks import LEFT, BuiltInNetwork, find_network, network_names, registry_version
from rollup_node.node.system.exit_codes import SetupError
from rollup_node.stages.protocol.config import utc_time
from rollup_node.stages.protocol.config_json import rollup_config_object
from rollup_node.stages.protocol.forks.table import FORKS
from rollup_node.stages.protocol.texts import duration
from rollup_node.tools.commands.flags import FlagParser

DESCRIPTION = """Lists the built-in networks: name, chain id of L1, chain id of L2, the newest fork that is scheduled
with the time that is left until then, who no longer has the network, and for a network that left the OP Stack the time
at which it did and the last block that can be derived. --json has the dependency set besides. `networks
dump-rollup-config --network NAME` prints the rollup.json of one, with the forks that variables such as
NODE_OVERRIDE_KARST override."""
DUMP = "dump-rollup-config"
OVERRIDES = ("NODE_OVERRIDE_", "OP_NODE_OVERRIDE_")
COLUMNS = "{:34} {:>9} {:>12}  {:46} {}"


def main(arguments: Sequence[str]) -> int:
    """Print a line for each network, or the config of one. Raises SetupError for a name that does not exist."""
    if list(arguments[:1]) == [DUMP]:
        return _dump(arguments[1:], os.environ)
    parser = FlagParser("networks", DESCRIPTION)
    parser.add_argument("--json", action="store_true", help="one JSON object a line")
    flags = parser.parse_all(arguments)
    networks = map(find_network, network_names())
    if flags.json:
        for network in networks:
            print(orjson.dumps(_values(network)).decode())
        return 0
    print(COLUMNS.format("NETWORK", "L1 CHAIN", "L2 CHAIN", "NEWEST FORK", "END"))
    now = time.time()
    for network in networks:
        print(_line(_values(network), now))
    version = registry_version()
    print(f"fork times of {version.checked}: superchain registry {version.commit[:10]} and what was published since")
    return 0


def _dump(arguments: Sequence[str], environ: Mapping[str, str]) -> int:
    parser = FlagParser(f"networks {DUMP}", "Prints the rollup config of a built-in network as JSON.")
    parser.add_argument("--network", metavar="NAME", help="a built-in network")
    name = parser.parse_all(arguments).network
    if name is None:
        raise SetupError("must specify a network name: --network NAME")
    overrides = {key: value for key, value in environ.items() if key.startswith(OVERRIDES)}
    values = parse_options([f"--network={name}", "--l1.beacon.ignore"], overrides).values
    config = choose_chain(values).config
    print(orjson.dumps(rollup_config_object(config), option=orjson.OPT_INDENT_2).decode())
    return 0


def _values(network: BuiltInNetwork) -> dict[str, Any]:
    config = network.config
    newest = [fork.name for fork in FORKS if fork.name in config.fork_times][-1]
    values: dict[str, Any] = {
        "name": network.name,
        "l1_chain": config.l1_chain_id,
        "l2_chain": config.l2_chain_id,
        "newest_fork": newest,
        "newest_fork_time": config.fork_times[newest],
        "dependencies": network.dependencies,
        "removed": network.removed,
        "end": None,
    }
    left = LEFT.get(network.name)
    if left is not None:
        values["end"] = {
            "fork": left.fork,
            "time": left.time,
            "last_block": config.last_block,
            "source": left.source,
        }
    return values


def _line(values: dict[str, Any], now: float) -> str:
    fork, begins = values["newest_fork"], values["newest_fork_time"]
    newest = f"{fork} from {utc_time(begins)}, in {duration(begins - now)}" if begins > now else fork
    end, shown = values["end"], "-" if values["removed"] is None else f"no longer in {values['removed']}"
    if end is not None:
        shown = f"block {end['last_block']}, before {end['fork']} at {utc_time(end['time'])}"
    return COLUMNS.format(values["name"], values["l1_chain"], values["l2_chain"], newest, shown)
