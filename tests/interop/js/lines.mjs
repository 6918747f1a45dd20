// Runs peers of one kind, each on its own connection to a Unix socket: lines of JSON, first its options, then commands
// with an id in; answers with the id and events out. A peer stops when its connection ends, the program with its input.
import net from 'node:net'
import readline from 'node:readline'

// Node 20 lacks this, and the libraries need it when they are loaded.
Promise.withResolvers ??= function () {
  const found = {}
  found.promise = new this((resolve, reject) => Object.assign(found, { resolve, reject }))
  return found
}

const [program, descriptor] = process.argv.slice(2)
const { start } = await import(`./${program}`)

async function runPeer (connection) {
  const lines = readline.createInterface({ input: connection })
  // A test that was cut short closes its end with lines unread: the peer stops as at any other end.
  connection.on('error', () => {})
  connection.on('close', () => lines.close())
  const send = line => {
    if (connection.writable) connection.write(JSON.stringify(line) + '\n')
  }
  let peer = null
  for await (const text of lines) {
    const line = JSON.parse(text)
    if (peer === null) peer = await start(line, send)
    else answer(peer.commands, line, send)
  }
  await peer?.stop()
  connection.end()
}

async function answer (commands, { id, command, ...rest }, send) {
  try {
    send({ id, result: (await commands[command](rest)) ?? null })
  } catch (error) {
    send({ id, error: String(error?.message ?? error).slice(0, 500) })
  }
}

// Half-open: the end of a connection says that its peer has stopped.
const server = net.createServer({ allowHalfOpen: true }, runPeer)
server.listen({ fd: Number(descriptor) })

// At the end of its input the program exits once no socket of a peer is open; one that a peer has left keeps it running.
function endWithoutSockets () {
  if (!process.getActiveResourcesInfo().some(kind => /tcp|udp/i.test(kind))) process.exit(0)
  setTimeout(endWithoutSockets, 20)
}

process.stdin.on('end', endWithoutSockets).resume()
