"""A client of the node for Python programs, on web3.py: the extra `rollup-node[client]`."""
