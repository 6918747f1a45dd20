"""From bytes on L1 to batches: frames, channel bodies, decompression, RLP, singular and span batches."""
