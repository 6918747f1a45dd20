"""The development chain's own L2 contracts: Solidity sources, and the bytecode compiled from them."""
