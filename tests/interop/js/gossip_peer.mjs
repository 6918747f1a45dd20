// A js-libp2p node with gossipsub and the sync protocol set as op-node's are (docs/rules/node-p2p-gossip.md, node-p2p-sync.md).
// Options: `gossip` overrides settings of gossipsub, `sync` are the ids under which the sync protocol is served.
import { createHash } from 'node:crypto'
import { announce, connecting, handle, makeNode, peerId, readAll, sendAll, stop } from './host.mjs'
import { unpack } from './snappy.mjs'
import { gossipsub } from '@libp2p/gossipsub'

const MAX_BYTES = 10 << 20

const base64 = data => Buffer.from(data).toString('base64')
const fromBase64 = text => Buffer.from(text, 'base64')

// op-node's id of a message: over its topic and its content, or its data where that does not decompress.
function messageId ({ topic, data }) {
  const content = unpack(Buffer.from(data))
  const length = Buffer.alloc(8)
  length.writeBigUInt64LE(BigInt(Buffer.byteLength(topic)))
  const hash = createHash('sha256').update(Buffer.from([content === null ? 0 : 1, 0, 0, 0]))
  return hash.update(length).update(topic).update(content ?? data).digest().subarray(0, 20)
}

const hexId = id => Buffer.from(id).toString('hex')
const idsOf = parts => (parts ?? []).flatMap(({ messageIDs }) => messageIDs.map(hexId))

export async function start (options, send) {
  const node = await makeNode(options.secret, {
    pubsub: gossipsub({
      globalSignaturePolicy: 'StrictNoSign',
      msgIdFn: messageId,
      D: 8,
      Dlo: 6,
      Dhi: 12,
      Dlazy: 6,
      heartbeatInterval: 500,
      mcacheLength: 12,
      mcacheGossip: 3,
      fanoutTTL: 24000,
      seenTTL: 65000,
      floodPublish: false,
      allowPublishToZeroTopicPeers: true,
      maxInboundDataLength: MAX_BYTES,
      maxOutboundBufferSize: 2 * MAX_BYTES,
      idontwantMinDataSize: 1024,
      ...options.gossip
    })
  })
  const { pubsub } = node.services

  // Every RPC of every peer, before it is handled.
  const { handleReceivedRpc } = pubsub
  pubsub.handleReceivedRpc = async (from, rpc) => {
    const { ihave, iwant, idontwant, graft, prune } = rpc.control ?? {}
    send({
      event: 'rpc',
      peer: String(from),
      messages: rpc.messages.map(message => ({
        id: hexId(messageId(message)),
        fields: Object.keys(message).filter(name => message[name] !== undefined).sort()
      })),
      ihave: idsOf(ihave),
      iwant: idsOf(iwant),
      idontwant: idsOf(idontwant),
      graft: (graft ?? []).map(({ topicID }) => topicID),
      prune: (prune ?? []).map(({ topicID, backoff }) => ({ topic: topicID, backoff: Number(backoff) }))
    })
    return handleReceivedRpc.call(pubsub, from, rpc)
  }

  pubsub.addEventListener('gossipsub:message', ({ detail: { propagationSource, msg } }) => send({
    event: 'message',
    peer: String(propagationSource),
    topic: msg.topic,
    id: hexId(messageId(msg)),
    data: base64(msg.data)
  }))

  // Numbers of blocks with the answer to a request for them.
  const answers = new Map()

  for (const protocol of options.sync ?? []) {
    await handle(node, protocol, send, async (stream, connection) => {
      const request = await readAll(stream)
      const number = Number(request.readBigUInt64LE())
      send({ event: 'request', peer: String(connection.remotePeer), protocol, number, size: request.length })
      await sendAll(stream, answers.get(number) ?? Buffer.from([1]))
    })
  }

  announce(node, send)

  const commands = {
    ...connecting(node),
    async join ({ topic }) {
      pubsub.subscribe(topic)
    },
    async leave ({ topic }) {
      pubsub.unsubscribe(topic)
    },
    // The validation result of all messages of a topic from now on: accept, ignore or reject.
    async validate ({ topic, result }) {
      pubsub.topicValidators.set(topic, (peer, message) => {
        send({ event: 'validated', peer: String(peer), id: hexId(messageId(message)), result })
        return result
      })
    },
    async publish ({ topic, data }) {
      const { recipients } = await pubsub.publish(topic, fromBase64(data))
      return recipients.map(String)
    },
    async state ({ topic }) {
      const peers = pubsub.getPeers().map(String)
      return {
        mesh: pubsub.getMeshPeers(topic),
        subscribers: pubsub.getSubscribers(topic).map(String),
        scores: Object.fromEntries(peers.map(peer => [peer, pubsub.getScore(peer)])),
        protocols: Object.fromEntries(peers.map(peer => [peer, pubsub.streamsOutbound.get(peer)?.protocol]))
      }
    },
    async answer ({ number, data }) {
      answers.set(number, fromBase64(data))
    },
    // One exchange of the sync protocol.
    async request ({ peer, protocol, data }) {
      const stream = await node.dialProtocol(peerId(peer), protocol, { maxOutboundStreams: 256 })
      const [, answer] = await Promise.all([sendAll(stream, fromBase64(data)), readAll(stream)])
      return base64(answer)
    }
  }
  return { commands, stop: () => stop(node) }
}
