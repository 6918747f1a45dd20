"""An Ethereum virtual machine in Python for development chains.

From the bottom: `trie` and `state` hold accounts by state root; the instructions, one function each, and the
precompiled contracts, one file per family, are what code can do; `interpreter` runs code, `transition` applies
transactions and executes blocks, by the rules of a fork (`forks`). `tools.devnet.chain` makes chains of such blocks."""
