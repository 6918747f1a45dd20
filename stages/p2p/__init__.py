"""The peer-to-peer process: libp2p host, gossip, discovery, scoring, sync protocol, peerstore [NET2 to NET4].

Interoperates with go-libp2p, js-libp2p and rust-libp2p over TCP, noise, yamux, identify and ping. The folders are those
of go-libp2p: encoding, identity, addresses, security, muxer, gating, scoring, host, peerstore, gossipsub, discv5, nat;
above them blocks, reqresp, peering, and the process.
"""
