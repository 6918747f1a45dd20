"""A client of the node for Python programs, on web3.py and eth-keys: the extra `rollup-node[client]`."""
