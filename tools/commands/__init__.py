"""The commands of `rollup-node` besides running a node and the local network."""
