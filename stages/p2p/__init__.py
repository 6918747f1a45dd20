"""The peer-to-peer process: libp2p host, gossip, discovery, scoring, sync protocol, peerstore [NET2 to NET4].

Interoperates with go-libp2p, js-libp2p and rust-libp2p over TCP, noise, yamux, identify and ping."""
