// Conversations of amqplib with a server. Prints one JSON object a line: {"name": ..., "error": null | text}.
//
//   node conversations.js amqp://guest:guest@127.0.0.1:5672/

'use strict'

const amqp = require('amqplib')
const assert = require('node:assert/strict')
const { randomUUID } = require('node:crypto')
const { once } = require('node:events')

const url = process.argv[2]

const conversations = {
  async 'confirm channel: every publish is confirmed' (connection, name) {
    const channel = await connection.createConfirmChannel()
    await channel.assertQueue(name, { durable: true })
    let confirmed = 0
    for (let number = 0; number < 500; number++) {
      channel.sendToQueue(name, Buffer.from(String(number)), { persistent: true }, (error) => {
        assert.equal(error, null)
        confirmed++
      })
    }
    await channel.waitForConfirms()
    assert.equal(confirmed, 500)
    assert.equal((await channel.checkQueue(name)).messageCount, 500)
    assert.equal((await channel.deleteQueue(name)).messageCount, 500)
  },

  async 'confirm channel: a mandatory message without a queue comes back first' (connection, name) {
    const channel = await connection.createConfirmChannel()
    const events = []
    channel.on('return', ({ fields, content }) => events.push(fields.replyCode, content.toString()))
    channel.publish('', name, Buffer.from('back'), { mandatory: true }, () => events.push('confirm'))
    await channel.waitForConfirms()
    assert.deepEqual(events, [312, 'back', 'confirm'])
  },

  async 'consume with acknowledgements and a prefetch limit' (connection, name) {
    const channel = await connection.createChannel()
    await channel.prefetch(7)
    await channel.assertQueue(name)
    for (let number = 0; number < 100; number++) channel.sendToQueue(name, Buffer.from([number]))
    const seen = []
    let outstanding = 0
    await new Promise((resolve) => channel.consume(name, (message) => {
      outstanding++
      assert.ok(outstanding <= 7)
      seen.push(message.content[0])
      setImmediate(() => {
        outstanding--
        channel.ack(message)
        if (seen.length === 100 && outstanding === 0) resolve()
      })
    }))
    assert.deepEqual(seen, [...Array(100).keys()])
  },

  async 'get, nack with requeue, ackAll' (connection, name) {
    const channel = await connection.createChannel()
    await channel.assertQueue(name, { exclusive: true })
    assert.equal(await channel.get(name), false)
    for (const body of ['a', 'b', 'c']) channel.sendToQueue(name, Buffer.from(body))
    const first = await channel.get(name)
    assert.equal(first.fields.messageCount, 2)
    channel.nack(first)
    const again = await channel.get(name)
    assert.equal(again.content.toString(), 'a')
    assert.equal(again.fields.redelivered, true)
    await channel.get(name)
    channel.ackAll()
    assert.equal((await channel.checkQueue(name)).messageCount, 1)
    channel.reject(await channel.get(name), false)
    assert.equal((await channel.purgeQueue(name)).messageCount, 0)
  },

  async 'RPC over an exclusive queue' (connection, name) {
    const server = await connection.createChannel()
    await server.assertQueue(name)
    await server.consume(name, (request) => {
      const { replyTo, correlationId } = request.properties
      const answer = Buffer.from(request.content.toString().toUpperCase())
      server.sendToQueue(replyTo, answer, { correlationId })
    }, { noAck: true })
    const other = await amqp.connect(url)
    const client = await other.createChannel()
    const { queue } = await client.assertQueue('', { exclusive: true })
    assert.match(queue, /^amq\.gen-/)
    const correlationId = randomUUID()
    const answer = new Promise((resolve) => client.consume(queue, resolve, { noAck: true }))
    client.sendToQueue(name, Buffer.from('question'), { replyTo: queue, correlationId })
    const message = await answer
    assert.equal(message.content.toString(), 'QUESTION')
    assert.equal(message.properties.correlationId, correlationId)
    await other.close()
    server.on('error', () => {}) // rejects the promise as well
    await assert.rejects(server.checkQueue(queue), { code: 404 })
  },

  async 'RPC with direct replies' (connection, name) {
    const server = await connection.createConfirmChannel()
    await server.assertQueue(name)
    await server.consume(name, (request) => {
      const { replyTo, correlationId } = request.properties
      assert.match(replyTo, /^amq\.rabbitmq\.reply-to\./)
      const answer = Buffer.from(request.content.toString().toUpperCase())
      server.sendToQueue(replyTo, answer, { correlationId })
    }, { noAck: true })
    const other = await amqp.connect(url)
    const client = await other.createChannel()
    const replies = []
    await new Promise((resolve) => {
      client.consume('amq.rabbitmq.reply-to', (message) => {
        replies.push(message.properties.correlationId + message.content.toString())
        if (replies.length === 100) resolve()
      }, { noAck: true }).then(() => {
        for (let number = 0; number < 100; number++) {
          client.sendToQueue(name, Buffer.from('question'), {
            replyTo: 'amq.rabbitmq.reply-to',
            correlationId: String(number),
          })
        }
      })
    })
    assert.deepEqual(replies, [...Array(100).keys()].map((number) => `${number}QUESTION`))
    await other.close()
  },

  async 'dead letters, limits and lifetimes' (connection, name) {
    const channel = await connection.createConfirmChannel()
    await channel.assertQueue(`${name}-dead`, { exclusive: true })
    await channel.assertQueue(name, {
      exclusive: true,
      messageTtl: 200,
      maxLength: 2,
      deadLetterExchange: '',
      deadLetterRoutingKey: `${name}-dead`,
    })
    const deaths = []
    const all = new Promise((resolve) => channel.consume(`${name}-dead`, (message) => {
      deaths.push([message.content.toString(), message.properties.headers['x-death'][0].reason])
      if (deaths.length === 3) resolve()
    }, { noAck: true }))
    for (const body of ['a', 'b', 'c']) channel.sendToQueue(name, Buffer.from(body))
    channel.nack(await channel.get(name), false, false)
    await all
    assert.deepEqual(deaths.sort(), [['a', 'maxlen'], ['b', 'rejected'], ['c', 'expired']])
  },

  async 'consumers with a priority come first' (connection, name) {
    const channel = await connection.createChannel()
    await channel.assertQueue(name, { exclusive: true, maxPriority: 5 })
    const seen = []
    await channel.consume(name, () => seen.push('low'), { noAck: true })
    await new Promise((resolve) => channel.consume(name, () => {
      seen.push('high')
      if (seen.length === 10) resolve()
    }, { noAck: true, priority: 10 }).then(() => {
      for (let number = 0; number < 10; number++) {
        channel.sendToQueue(name, Buffer.from('x'), { priority: number % 5 })
      }
    }))
    assert.deepEqual(seen, Array(10).fill('high'))
  },

  async 'properties, header values and 1 MiB come back' (connection, name) {
    const channel = await connection.createConfirmChannel()
    await channel.assertQueue(name, { exclusive: true })
    const content = Buffer.alloc(1024 * 1024, 'content')
    const headers = {
      text: 'ä€𝄞',
      int: -5,
      long: 2 ** 40,
      double: 0.1,
      yes: true,
      nothing: null,
      list: [1, 'two', { three: 3 }],
      octets: Buffer.from([0, 255]),
      table: { deeper: { deepest: [] } },
      typed: { '!': 'timestamp', value: 1709209815 },
    }
    channel.sendToQueue(name, content, {
      headers,
      contentType: 'application/json',
      contentEncoding: 'gzip',
      persistent: true,
      priority: 3,
      correlationId: 'c',
      replyTo: 'r',
      expiration: 3600000,
      messageId: 'm',
      timestamp: 1709209815,
      type: 't',
      userId: 'guest',
      appId: 'a',
    })
    await channel.waitForConfirms()
    const { properties, content: got } = await channel.get(name, { noAck: true })
    assert.ok(got.equals(content))
    assert.deepEqual(properties, {
      headers,
      contentType: 'application/json',
      contentEncoding: 'gzip',
      deliveryMode: 2,
      priority: 3,
      correlationId: 'c',
      replyTo: 'r',
      expiration: '3600000',
      messageId: 'm',
      timestamp: 1709209815,
      type: 't',
      userId: 'guest',
      appId: 'a',
      clusterId: undefined,
    })
  },

  async 'exchanges: topic, headers, bound to each other' (connection, name) {
    const channel = await connection.createChannel()
    const { queue } = await channel.assertQueue('', { exclusive: true })
    await channel.assertExchange(name, 'topic', { autoDelete: true })
    await channel.assertExchange(`${name}-headers`, 'headers', { autoDelete: true })
    await channel.bindExchange(`${name}-headers`, name, 'a.#')
    await channel.bindQueue(queue, `${name}-headers`, '', { 'x-match': 'any', kind: 'this', size: 4 })
    channel.publish(name, 'a.b', Buffer.from('1'), { headers: { kind: 'this' } })
    channel.publish(name, 'a.b', Buffer.from('2'), { headers: { kind: 'that' } })
    channel.publish(name, 'b', Buffer.from('3'), { headers: { kind: 'this' } })
    channel.publish(name, 'a', Buffer.from('4'), { headers: { size: 4 } })
    const bodies = []
    await new Promise((resolve) => channel.consume(queue, (message) => {
      bodies.push(message.content.toString())
      if (bodies.length === 2) resolve()
    }, { noAck: true }))
    assert.deepEqual(bodies, ['1', '4'])
  },

  async 'cancelling, and being cancelled' (connection, name) {
    const channel = await connection.createChannel()
    await channel.assertQueue(name)
    const { consumerTag } = await channel.consume(name, () => {})
    await channel.cancel(consumerTag)
    let tellCancelled
    const cancelled = new Promise((resolve) => { tellCancelled = resolve })
    await channel.consume(name, (message) => message === null && tellCancelled())
    await channel.deleteQueue(name)
    await cancelled
  },
}

const refusals = {
  404: (channel, name) => channel.checkQueue(name),
  403: (channel) => channel.assertQueue('amq.reserved'),
  406: async (channel, name) => {
    await channel.assertQueue(name, { durable: true })
    await channel.assertQueue(name, { durable: false })
  },
  405: async (channel, name) => {
    const other = await amqp.connect(url)
    try {
      await (await other.createChannel()).assertQueue(name, { exclusive: true })
      await channel.checkQueue(name)
    } finally {
      await other.close()
    }
  },
}

for (const [code, action] of Object.entries(refusals)) {
  conversations[`a refusal with ${code} closes the channel only`] = async (connection, name) => {
    const channel = await connection.createChannel()
    const failed = once(channel, 'error')
    await assert.rejects(action(channel, name), { code: Number(code) })
    assert.equal((await failed)[0].code, Number(code))
    await (await connection.createChannel()).checkExchange('amq.direct')
  }
}

conversations['bad credentials are refused with 403'] = async () => {
  const wrong = new URL(url)
  wrong.password = 'wrong'
  await assert.rejects(amqp.connect(wrong.toString()), /403 \(ACCESS-REFUSED\)/)
}

async function main () {
  for (const [name, converse] of Object.entries(conversations)) {
    let error = null
    const connection = await amqp.connect(url)
    try {
      await converse(connection, `node-${randomUUID()}`)
      await connection.close()
    } catch (caught) {
      error = String(caught.stack ?? caught)
    }
    console.log(JSON.stringify({ name, error }))
  }
}

main()
