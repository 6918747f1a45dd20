// A js-libp2p node that echoes: the transport alone.
import { createHash } from 'node:crypto'
import { announce, connecting, handle, makeNode, peerId, readAll, sendAll, stop } from './host.mjs'

const ECHO = '/rollup-node/test/echo/1'

export async function start ({ secret }, send) {
  const node = await makeNode(secret)

  await handle(node, ECHO, send, async stream => sendAll(stream, await readAll(stream)))

  announce(node, send)

  const commands = {
    ...connecting(node),
    async ping ({ peer }) {
      return node.services.ping.ping(peerId(peer))
    },
    async echo ({ peer, size, protocol }) {
      const data = Buffer.alloc(size, 'rollup')
      const stream = await node.dialProtocol(peerId(peer), protocol ?? ECHO)
      const [, answer] = await Promise.all([sendAll(stream, data), readAll(stream)])
      return { size: answer.length, hash: createHash('sha256').update(answer).digest('hex') }
    },
    async serve ({ protocol }) {
      await node.handle(protocol, stream => stream.close())
    },
    async protocols ({ peer }) {
      return (await node.peerStore.get(peerId(peer))).protocols
    }
  }
  return { commands, stop: () => stop(node) }
}
