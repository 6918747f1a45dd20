"""Encodings that libp2p shares: varints, protobuf, base58, multistream-select, snappy."""
