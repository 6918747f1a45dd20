"""The chains of the API: built-in networks, and those of a rollup.json."""

import os
from collections.abc import Mapping
from pathlib import Path

from rollup_node.node.options.given_files import read_chain_file
from rollup_node.node.setup import networks
from rollup_node.node.system.exit_codes import SetupError
from rollup_node.stages.protocol.config import ConfigError, RollupConfig, check_config
from rollup_node.stages.protocol.config_json import parse_rollup_config
from rollup_node.tools.api.errors import InputError, input_errors
from rollup_node.tools.inspect.batch_summary import BlockNumbers, block_numbers


class Chain:
    """A chain of the OP Stack: its name, its chain ids, its genesis, and the times of its forks.

    `Chain.load` reads one from a rollup.json; `Network` is a built-in one."""

    def __init__(self, name: str, config: RollupConfig, words: tuple[str, str]) -> None:
        self.name = name
        self._config, self._words = config, words

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> "Chain":
        """Return the chain of a rollup.json. Raises InputError for a file that is none."""
        name = os.fspath(path)
        with input_errors():
            content = read_chain_file(name, "failed to read rollup config")
            try:
                config = networks.with_departure(parse_rollup_config(content).config)
                check_config(config)
            except ConfigError as error:
                raise SetupError(f"rollup config error: {error} (file {name})") from None
        return Chain(Path(name).name, config, ("--rollup.config", name))

    @property
    def l1_chain_id(self) -> int:
        """The chain id of L1."""
        return self._config.l1_chain_id

    @property
    def l2_chain_id(self) -> int:
        """The chain id of L2."""
        return self._config.l2_chain_id

    @property
    def block_time(self) -> int:
        """The seconds between two L2 blocks."""
        return self._config.block_time

    @property
    def genesis_number(self) -> int:
        """The number of the L2 genesis block."""
        return self._config.genesis.l2.number

    @property
    def genesis_l1(self) -> int:
        """The number of the L1 block in which the chain begins."""
        return self._config.genesis.l1.number

    @property
    def forks(self) -> Mapping[str, int]:
        """The activation time of each scheduled fork in Unix seconds, in order; a new mapping."""
        return dict(sorted(self._config.fork_times.items(), key=lambda item: item[1]))

    def number_at(self, timestamp: int) -> int | None:
        """Return the number of the L2 block of a time in Unix seconds; None for a time that no block has."""
        return self._numbers.at(timestamp)

    def time_of(self, number: int) -> int:
        """Return the time of an L2 block in Unix seconds."""
        first, time, seconds = self._numbers
        return time + (number - first) * seconds

    @property
    def _numbers(self) -> BlockNumbers:
        return block_numbers(self._config)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r})"


class Network(Chain):
    """A built-in network by its name, such as op-mainnet.

    Raises InputError for a name that is not known."""

    def __init__(self, name: str) -> None:
        with input_errors():
            network = networks.find_network(name)
        super().__init__(network.name, network.config, ("--network", network.name))

    @staticmethod
    def names() -> tuple[str, ...]:
        """Return the names of the built-in networks."""
        return networks.network_names()


def chain_of(chain: str | Chain) -> Chain:
    """Return a chain, or the network of a name. Raises InputError for anything else."""
    if not isinstance(chain, Chain | str):
        raise InputError(f"chain={chain!r} is neither the name of a network nor a Chain")
    return chain if isinstance(chain, Chain) else Network(chain)


def config_of(chain: Chain) -> RollupConfig:
    """Return the parameters of a chain as the node has them."""
    return chain._config


def words_of(chain: Chain) -> tuple[str, str]:
    """Return the option of the node that chooses the chain."""
    return chain._words
