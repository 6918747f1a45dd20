// A js-libp2p node on the loopback interface, as op-node would be: TCP, noise, yamux, identify, ping, and more services.
import { createLibp2p } from 'libp2p'
import { tcp } from '@libp2p/tcp'
import { noise } from '@libp2p/noise'
import { yamux } from '@libp2p/yamux'
import { identify, identifyPush } from '@libp2p/identify'
import { ping } from '@libp2p/ping'
import { privateKeyFromRaw } from '@libp2p/crypto/keys'
import { multiaddr } from '@multiformats/multiaddr'
import { peerIdFromString } from '@libp2p/peer-id'

export const peerId = peerIdFromString

export function makeNode (secret, services = {}) {
  return createLibp2p({
    privateKey: privateKeyFromRaw(Buffer.from(secret, 'hex')),
    addresses: { listen: ['/ip4/127.0.0.1/tcp/0'] },
    transports: [tcp()],
    connectionEncrypters: [noise()],
    streamMuxers: [yamux()],
    services: { identify: identify(), identifyPush: identifyPush(), ping: ping(), ...services }
  })
}

// Tells of connections from now on, and that the node is ready.
export function announce (node, send) {
  for (const event of ['peer:connect', 'peer:disconnect']) {
    node.addEventListener(event, ({ detail }) => send({ event, peer: String(detail) }))
  }
  node.addEventListener('peer:identify', ({ detail }) => send({
    event: 'peer:identify',
    peer: String(detail.peerId),
    agent: detail.agentVersion,
    protocols: detail.protocols,
    addresses: detail.listenAddrs.map(String)
  }))
  send({ event: 'ready', peer: String(node.peerId), addresses: node.getMultiaddrs().map(String) })
}

// Ends connections at once, as the end of a process would, and closes every socket.
export async function stop (node) {
  for (const connection of node.getConnections()) connection.abort(new Error('stopped'))
  await node.stop()
}

export const connecting = node => ({
  async dial ({ address }) {
    const { encryption, multiplexer } = await node.dial(multiaddr(address))
    return { encryption, multiplexer }
  },
  async hangup ({ peer }) {
    await node.hangUp(peerId(peer))
  },
  async connections () {
    return node.getConnections().map(({ remotePeer, direction, streams }) => ({
      peer: String(remotePeer), direction, streams: streams.length
    }))
  }
})

// Lets a node handle a protocol; a failed exchange is an event, and its stream is aborted.
export function handle (node, protocol, send, exchange) {
  return node.handle(protocol, async (stream, connection) => {
    try {
      await exchange(stream, connection)
    } catch (error) {
      send({ event: 'failed', what: String(error) })
      stream.abort(error)
    }
  })
}

export async function readAll (stream) {
  const parts = []
  for await (const part of stream) parts.push(Buffer.from(part.subarray()))
  return Buffer.concat(parts)
}

export async function sendAll (stream, data) {
  for (let at = 0; at < data.length; at += 60000) {
    if (!stream.send(data.subarray(at, at + 60000))) await stream.onDrain()
  }
  await stream.close()
}
