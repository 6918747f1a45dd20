"""Node Discovery v5.1 and node records [DSC1 to DSC11].

The cores are synchronous and take time and randomness as arguments: `packet_codec` encrypts and decrypts packets,
`calls` matches responses with requests, `table` is the routing table, `lookup` walks towards a target, `node` joins
them. Source: https://github.com/ethereum/devp2p/blob/master/discv5/discv5.md and discv5-wire.md beside it"""
