// A @chainsafe/discv5 node on the loopback interface.
import { Discv5 } from '@chainsafe/discv5'
import { ENR, SignableENR } from '@chainsafe/enr'
import { privateKeyFromRaw } from '@libp2p/crypto/keys'

export async function start (options, send) {
  const privateKey = privateKeyFromRaw(Buffer.from(options.secret, 'hex'))
  const port = Buffer.from([options.port >> 8, options.port & 255])
  const ip = Buffer.from(options.ip.split('.').map(Number))
  const enr = SignableENR.createFromPrivateKey(privateKey)
  for (const [name, value] of [['ip', ip], ['udp', port], ['tcp', port]]) enr.set(name, value)
  enr.set('opstack', Buffer.from(options.opstack, 'hex'))

  const node = Discv5.create({
    enr,
    privateKey,
    bindAddrs: { ip4: enr.getLocationMultiaddr('udp') },
    config: { enrUpdate: false, requestTimeout: 2000, requestRetries: 1, lookupTimeout: 10000 }
  })

  const texts = records => records.map(record => record.encodeTxt())

  node.on('discovered', record => send({ event: 'discovered', record: record.encodeTxt() }))
  await node.start()
  send({ event: 'ready', record: node.enr.encodeTxt(), node: node.enr.nodeId })

  const commands = {
    async ping ({ record }) {
      const pong = await node.sendPing(ENR.decodeTxt(record))
      return { seq: Number(pong.enrSeq), port: pong.addr.port, ip: Array.from(pong.addr.ip.octets ?? []) }
    },
    add ({ record }) {
      node.addEnr(record)
    },
    async talk ({ record, protocol }) {
      const answer = await node.sendTalkReq(ENR.decodeTxt(record), Buffer.from('hello'), protocol)
      return Buffer.from(answer).toString('hex')
    },
    async find ({ target }) {
      return texts(await node.findNode(target))
    },
    async random () {
      return texts(await node.findRandomNode())
    },
    table () {
      return texts(node.kadValues())
    }
  }
  return { commands, stop: () => node.stop() }
}
