"""Node discovery v5.1 and node records (node-behaviour 13.2; devp2p's discv5 and enr documents). The cores are
synchronous and are given time and randomness: `channel` seals and opens packets, `calls` matches responses with
requests, `table` keeps neighbours, `lookup` walks towards a target, and `service` joins them. `transport_udp` is the
socket around it, `node_database` what survives a restart."""
