"""An Ethereum virtual machine in plain Python for development chains: tries, state, instructions, transactions, blocks.

From below: `trie` and `state` hold accounts by root, `machine` runs code, `execution` applies transactions to a block,
`forks` says which rules a block has. `tools.devnet.chain` makes chains of such blocks."""
