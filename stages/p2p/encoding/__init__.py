"""Encodings that libp2p's protocols share: unsigned varints, protobuf, base58, multistream-select, snappy."""
