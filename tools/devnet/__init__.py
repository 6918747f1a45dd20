"""`rollup-node devnet`.

A whole rollup on one machine, of an L1 with its Beacon API, execution engines, nodes and a batcher."""
