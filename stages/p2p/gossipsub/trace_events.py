"""The events that the router counts, by the names of pubsub's tracer [MET16]."""

from enum import StrEnum


class TraceEvent(StrEnum):
    """The label `type` of the metric `p2p_gossip_events_total`."""

    ADD_PEER = "ADD_PEER"
    REMOVE_PEER = "REMOVE_PEER"
    JOIN = "JOIN"
    LEAVE = "LEAVE"
    GRAFT = "GRAFT"
    PRUNE = "PRUNE"
    PUBLISH_MESSAGE = "PUBLISH_MESSAGE"
    DELIVER_MESSAGE = "DELIVER_MESSAGE"
    DUPLICATE_MESSAGE = "DUPLICATE_MESSAGE"
    REJECT_MESSAGE = "REJECT_MESSAGE"
    RECV_RPC = "RECV_RPC"
    SEND_RPC = "SEND_RPC"
    DROP_RPC = "DROP_RPC"
