// Programs driven over stdin and stdout by lines of JSON: commands with an id in, answers with the id and events out.
import readline from 'node:readline'

// Node 20 lacks this, and the libraries need it.
Promise.withResolvers ??= function () {
  const found = {}
  found.promise = new this((resolve, reject) => Object.assign(found, { resolve, reject }))
  return found
}

export const options = JSON.parse(process.argv[2] ?? '{}')

export function send (line) {
  process.stdout.write(JSON.stringify(line) + '\n')
}

export function serve (commands) {
  const input = readline.createInterface({ input: process.stdin })
  input.on('line', async text => {
    const { id, command, ...rest } = JSON.parse(text)
    try {
      send({ id, result: (await commands[command](rest)) ?? null })
    } catch (error) {
      send({ id, error: String(error?.message ?? error).slice(0, 500) })
    }
  })
  input.on('close', () => process.exit(0))
}
