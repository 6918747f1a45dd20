"""The packet codec: encrypts messages, and decrypts, challenges or drops incoming packets with a reason.

Without a session's keys random bytes are sent, which make the remote end ask who we are (WHOAREYOU)."""

from enum import Enum
from itertools import count
from typing import NamedTuple

from rollup_node.stages.p2p.addresses.ip import host_prefix
from rollup_node.stages.p2p.addresses.peer_id import NodeId, node_id
from rollup_node.stages.p2p.discv5 import messages, packets, sessions
from rollup_node.stages.p2p.discv5.enr import SIGNATURE_SIZE, Contact, Endpoint, Enr, EnrError, decode_enr
from rollup_node.stages.protocol import secp256k1
from rollup_node.stages.protocol.pacing import KeyedTokenBuckets, TokenBucket

_WHOAREYOU_PER_HOST = (20.0, 60.0, 2048)
_WHOAREYOU_TOTAL = (300.0, 600.0)


class PacketDrop(Enum):
    """Why a datagram was dropped; the values are the label `reason` of a metric and shown by `p2p doctor`."""

    NOT_A_PACKET = "not a packet"
    NOT_A_MESSAGE = "not a message"
    RESTRICTED = "outside the allowed networks"
    TOO_MANY = "too many from this address"
    TOO_MANY_CHALLENGES = "too many challenges"
    UNSOLICITED = "unsolicited"
    REPLAYED = "seen before"
    BAD_HANDSHAKE = "bad handshake"
    OWN_ID = "sent in our own name"


class AuthenticMessage(NamedTuple):
    """A message of a node that has proved its identity and address; `record` is the one of its handshake, if any."""

    node: NodeId
    endpoint: Endpoint
    message: messages.Discv5Message
    record: Enr | None


class EncodedPacket(NamedTuple):
    """A datagram to send, and the nonce by which a WHOAREYOU would refer to it."""

    datagram: bytes
    nonce: bytes


DecodedPacket = AuthenticMessage | packets.WhoAreYou | packets.MessagePacket | PacketDrop
"""A message packet could not be decrypted and should be answered with WHOAREYOU."""


class PacketCodec:
    """Sessions and challenges of our node, whose private key is `secret`."""

    def __init__(self, secret: bytes, random: sessions.RandomBytes) -> None:
        self._secret, self._random = secret, random
        self.node_id = node_id(secp256k1.public_key(secret))
        self.sessions = sessions.Sessions()
        self.challenges = sessions.Challenges()
        self._orders = count()
        self._whoareyou_limits: KeyedTokenBuckets[bytes] = KeyedTokenBuckets(*_WHOAREYOU_PER_HOST)
        self._whoareyou_total = TokenBucket(*_WHOAREYOU_TOTAL)

    def encode_message(self, node: NodeId, endpoint: Endpoint, plaintext: bytes) -> EncodedPacket | None:
        """Encrypt a message with the session's key; None without a session."""
        session = self.sessions.newest(node, endpoint)
        if session is None:
            return None
        nonce = session.next_nonce(self._random)
        header = packets.message_header(self.node_id, node, nonce, self._random(packets.IV_SIZE))
        return EncodedPacket(header.packet(packets.encrypt(session.write_key, nonce, plaintext, header.data)), nonce)

    def is_handshake_due(self, node: NodeId, endpoint: Endpoint, now: float) -> bool:
        """Whether there is no session, and the node may still answer a challenge of ours."""
        return self.sessions.newest(node, endpoint) is None and bool(self.challenges.pending(node, endpoint, now))

    def encode_random(self, node: NodeId) -> EncodedPacket:
        """Return a packet with random data, which the remote end answers with WHOAREYOU."""
        nonce = self._random(packets.NONCE_SIZE)
        header = packets.message_header(self.node_id, node, nonce, self._random(packets.IV_SIZE))
        return EncodedPacket(header.packet(self._random(packets.RANDOM_MESSAGE_BYTES)), nonce)

    def encode_handshake(
        self, contact: Contact, whoareyou: packets.WhoAreYou, record: Enr, plaintext: bytes
    ) -> bytes | None:
        """Encode the handshake that a WHOAREYOU requests, with the message; None for an invalid public key."""
        secret, ephemeral_key = self._ephemeral_key()
        try:
            shared = secp256k1.multiply_point(contact.public_key, secret)
        except ValueError:
            return None
        write_key, read_key = packets.derive_keys(shared, whoareyou.challenge_data, self.node_id, contact.node_id)
        session = sessions.Discv5Session(write_key, read_key, next(self._orders))
        self.sessions.add(contact.node_id, contact.endpoint, session)
        nonce = session.next_nonce(self._random)
        digest = packets.id_signature_hash(whoareyou.challenge_data, ephemeral_key, contact.node_id)
        header = packets.handshake_header(
            *(self.node_id, contact.node_id, nonce, self._random(packets.IV_SIZE)),
            signature=secp256k1.sign_recoverable(digest, self._secret)[:SIGNATURE_SIZE],
            ephemeral_key=ephemeral_key,
            record=record.raw if whoareyou.enr_seq < record.seq else b"",
        )
        return header.packet(packets.encrypt(write_key, nonce, plaintext, header.data))

    def encode_whoareyou(
        self, packet: packets.MessagePacket, sender: Endpoint, known: Contact | None, now: float
    ) -> bytes | PacketDrop:
        """Encode the WHOAREYOU for a message that could not be decrypted, never larger than it.

        `known` is the sender as far as we know it; at its known address the limit over all senders does not apply,
        so that a flood of strangers does not keep it out."""
        if not self._whoareyou_limits[host_prefix(sender.ip)].allow(now):
            return PacketDrop.TOO_MANY_CHALLENGES
        if (known is None or known.endpoint != sender) and not self._whoareyou_total.allow(now):
            return PacketDrop.TOO_MANY_CHALLENGES
        record = known.record if known is not None else None
        seq = record.seq if record is not None else 0
        header = packets.whoareyou_header(
            packet.source, packet.nonce, self._random(16), seq, self._random(packets.IV_SIZE)
        )
        challenge = sessions.SentChallenge(header.data, record, now + sessions.CHALLENGE_TIMEOUT, next(self._orders))
        self.challenges.add(packet.source, sender, challenge, now)
        return header.packet()

    def decode(self, datagram: bytes, sender: Endpoint, now: float) -> DecodedPacket:
        try:
            packet = packets.decode(datagram, self.node_id)
        except packets.PacketError:
            return PacketDrop.NOT_A_PACKET
        if isinstance(packet, packets.WhoAreYou):
            return packet
        if packet.source == self.node_id:
            return PacketDrop.OWN_ID
        if isinstance(packet, packets.HandshakePacket):
            return self._decode_handshake(packet, sender, now)
        decrypted = self.sessions.decrypt(packet, sender)
        if decrypted is None:
            return packet
        return (
            PacketDrop.REPLAYED
            if decrypted.plaintext is None
            else _decode_message(packet.source, sender, decrypted.plaintext, None)
        )

    def _decode_handshake(self, packet: packets.HandshakePacket, sender: Endpoint, now: float) -> DecodedPacket:
        """Accept the session of a handshake that answers one of our challenges; any other changes nothing."""
        pending = self.challenges.pending(packet.source, sender, now)
        if not pending:
            return PacketDrop.UNSOLICITED
        try:
            sent_record = decode_enr(packet.record) if packet.record else None
        except EnrError:
            return PacketDrop.BAD_HANDSHAKE
        for challenge in pending:
            record = sent_record or challenge.record
            if (
                record is None
                or record.node_id != packet.source
                or not self._verify_id_signature(packet, challenge, record)
            ):
                continue
            return self._accept_handshake(packet, sender, challenge, record)
        return PacketDrop.BAD_HANDSHAKE

    def _verify_id_signature(
        self, packet: packets.HandshakePacket, challenge: sessions.SentChallenge, record: Enr
    ) -> bool:
        digest = packets.id_signature_hash(challenge.challenge_data, packet.ephemeral_public_key, self.node_id)
        return secp256k1.verify_compact(record.public_key, digest, packet.id_signature)

    def _accept_handshake(
        self, packet: packets.HandshakePacket, sender: Endpoint, challenge: sessions.SentChallenge, record: Enr
    ) -> DecodedPacket:
        try:
            shared = secp256k1.multiply_point(packet.ephemeral_public_key, self._secret)
        except ValueError:
            return PacketDrop.BAD_HANDSHAKE
        read_key, write_key = packets.derive_keys(shared, challenge.challenge_data, packet.source, self.node_id)
        plaintext = packets.decrypt(read_key, packet.nonce, packet.ciphertext, packet.authenticated_data)
        if plaintext is None:
            return PacketDrop.BAD_HANDSHAKE
        session = sessions.Discv5Session(write_key, read_key, challenge.order)
        session.accept_nonce(packet.nonce)
        self.sessions.add(packet.source, sender, session)
        self.challenges.remove(packet.source, sender)
        return _decode_message(packet.source, sender, plaintext, record)

    def _ephemeral_key(self) -> tuple[bytes, bytes]:
        while True:
            secret = self._random(32)
            try:
                return secret, secp256k1.public_key(secret)
            except ValueError:
                continue


def _decode_message(node: NodeId, endpoint: Endpoint, plaintext: bytes, record: Enr | None) -> DecodedPacket:
    try:
        return AuthenticMessage(node, endpoint, messages.decode(plaintext), record)
    except messages.MessageError:
        return PacketDrop.NOT_A_MESSAGE
