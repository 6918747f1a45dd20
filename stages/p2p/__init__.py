"""The peer-to-peer process: transport, gossip, discovery, scoring, request-response sync, and the store of peers.

Interoperates with go-libp2p, js-libp2p and rust-libp2p over TCP, noise, yamux, identify and ping (node-behaviour 13).
"""
