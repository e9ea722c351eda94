// A conversation of amqplib over TLS, with a password and with a certificate (EXTERNAL).
//
//   node tls.js HOST PORT CA CERTIFICATE KEY
//
// Prints one JSON object: {"password": text, "certificate": text}, what each connection has read.

'use strict'

const amqp = require('amqplib')
const { readFileSync } = require('node:fs')
const { randomBytes } = require('node:crypto')

const [host, port, ca, cert, key] = process.argv.slice(2)

async function converse (options, credentials) {
  const connection = await amqp.connect(`amqps://${credentials}${host}:${port}/`, {
    ca: [readFileSync(ca)],
    ...options
  })
  const channel = await connection.createConfirmChannel()
  const { queue } = await channel.assertQueue('', { exclusive: true })
  const body = randomBytes(1024 * 1024)
  channel.sendToQueue(queue, body)
  await channel.waitForConfirms()
  const message = await channel.get(queue, { noAck: true })
  await connection.close()
  return message.content.equals(body) ? 'same' : 'different'
}

async function main () {
  const password = await converse({}, 'guest:guest@')
  const certificate = await converse({
    cert: readFileSync(cert),
    key: readFileSync(key),
    credentials: amqp.credentials.external()
  }, '')
  console.log(JSON.stringify({ password, certificate }))
}

main()
