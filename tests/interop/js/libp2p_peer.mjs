// A js-libp2p node on the loopback interface, as op-node would be: TCP, noise, yamux, identify, ping.
import './lines.mjs'
import { createHash } from 'node:crypto'
import { say, serve, options } from './lines.mjs'

const { createLibp2p } = await import('libp2p')
const { tcp } = await import('@libp2p/tcp')
const { noise } = await import('@libp2p/noise')
const { yamux } = await import('@libp2p/yamux')
const { identify, identifyPush } = await import('@libp2p/identify')
const { ping } = await import('@libp2p/ping')
const { privateKeyFromRaw } = await import('@libp2p/crypto/keys')
const { multiaddr } = await import('@multiformats/multiaddr')
const { peerIdFromString } = await import('@libp2p/peer-id')

const ECHO = '/rollup-node/test/echo/1'

const node = await createLibp2p({
  privateKey: privateKeyFromRaw(Buffer.from(options.secret, 'hex')),
  addresses: { listen: ['/ip4/127.0.0.1/tcp/0'] },
  transports: [tcp()],
  connectionEncrypters: [noise()],
  streamMuxers: [yamux()],
  services: { identify: identify(), identifyPush: identifyPush(), ping: ping() }
})

async function readAll (stream) {
  const parts = []
  for await (const part of stream) parts.push(Buffer.from(part.subarray()))
  return Buffer.concat(parts)
}

async function sendAll (stream, data) {
  for (let at = 0; at < data.length; at += 60000) {
    if (!stream.send(data.subarray(at, at + 60000))) await stream.onDrain()
  }
  await stream.close()
}

await node.handle(ECHO, async stream => {
  try {
    await sendAll(stream, await readAll(stream))
  } catch (error) {
    say({ event: 'failed', what: String(error) })
    stream.abort(error)
  }
})

for (const event of ['peer:connect', 'peer:disconnect']) {
  node.addEventListener(event, ({ detail }) => say({ event, peer: String(detail) }))
}
node.addEventListener('peer:identify', ({ detail }) => say({
  event: 'peer:identify',
  peer: String(detail.peerId),
  agent: detail.agentVersion,
  protocols: detail.protocols,
  addresses: detail.listenAddrs.map(String)
}))

say({ event: 'ready', peer: String(node.peerId), addresses: node.getMultiaddrs().map(String) })

serve({
  async dial ({ address }) {
    const { encryption, multiplexer } = await node.dial(multiaddr(address))
    return { encryption, multiplexer }
  },
  async hangup ({ peer }) {
    await node.hangUp(peerIdFromString(peer))
  },
  async ping ({ peer }) {
    return node.services.ping.ping(peerIdFromString(peer))
  },
  async echo ({ peer, size, protocol }) {
    const data = Buffer.alloc(size, 'rollup')
    const stream = await node.dialProtocol(peerIdFromString(peer), protocol ?? ECHO)
    const [, answer] = await Promise.all([sendAll(stream, data), readAll(stream)])
    return { size: answer.length, hash: createHash('sha256').update(answer).digest('hex') }
  },
  async serve ({ protocol }) {
    await node.handle(protocol, stream => stream.close())
  },
  async connections () {
    return node.getConnections().map(({ remotePeer, direction, streams }) => ({
      peer: String(remotePeer), direction, streams: streams.length
    }))
  },
  async protocols ({ peer }) {
    return (await node.peerStore.get(peerIdFromString(peer))).protocols
  }
})
