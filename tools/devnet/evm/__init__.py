"""An Ethereum virtual machine in Python for development chains.

From the bottom: `trie` and `state` hold accounts by state root, `instructions` and `precompiles` are what code can do,
and `state_transition` runs code (`interpreter`), applies transactions (`transition`) and executes blocks (`block`) by
the rules of a fork (`forks`). `tools.devnet.chain` makes chains of such blocks."""
