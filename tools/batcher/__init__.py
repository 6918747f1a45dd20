"""An own batcher library: encodes L2 blocks into what a batcher posts, written apart from the decoder."""
