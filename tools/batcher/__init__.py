"""A batcher (op-batcher's job): encodes L2 blocks into batches, channels and frames and posts them to L1.

It is written apart from the decoder in `stages.derivation`, so that each checks the other."""
