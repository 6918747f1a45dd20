"""`rollup-node`, where OP Sepolia and the chain of any rollup.json leave the OP Stack: the first argument is the time
of the foreign fork, the others are those of the program."""

import sys
from functools import partial
from unittest import mock

import msgspec

from rollup_node.node import cli
from rollup_node.node.setup.networks import LEFT, Departure
from rollup_node.stages.protocol.config import ForeignFork

if __name__ == "__main__":
    fork = ForeignFork("Somefork", int(sys.argv[1]))
    LEFT["op-sepolia"] = Departure(fork.name, fork.time, "a test")
    leaving = partial(msgspec.structs.replace, foreign_fork=fork)
    with mock.patch("rollup_node.node.setup.networks.with_departure", leaving):
        sys.exit(cli.main(sys.argv[2:]))
