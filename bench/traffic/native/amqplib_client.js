// amqplib: a publisher with WINDOW publishes at a time, or a consumer; see __init__.py.

'use strict';

const fs = require('fs');
const path = require('path');
const readline = require('readline');
const zlib = require('zlib');
const amqplib = require('amqplib/callback_api');

const WINDOW = 200;
const [role, host, port, queue, seconds, directory] = process.argv.slice(2);

function fail(error) {
  console.error(String(error));
  process.exit(1);
}

function hex(number, digits) {
  return number.toString(16).padStart(digits, '0');
}

function waitForStart(start) {
  const input = readline.createInterface({ input: process.stdin });
  input.once('line', () => {
    input.close();
    process.stdin.destroy(); // an open pipe would keep the process
    start();
  });
  console.log('ready');
}

function publish(connection, channel) {
  const sizes = fs.readFileSync(path.join(directory, 'sizes.txt'), 'utf8').trim().split('\n').map(Number);
  const tails = fs.readFileSync(path.join(directory, 'tails.bin'));
  const latencies = [];
  let published = 0;
  let outstanding = 0;
  let isPumping = false;
  let end;

  function body(number) {
    const tail = tails.subarray(0, sizes[number % sizes.length] - 40);
    const head = Buffer.from(hex(number, 16) + hex(0, 16));
    const digest = hex(zlib.crc32(head, zlib.crc32(tail)), 8);
    return Buffer.concat([head, Buffer.from(digest), tail]);
  }

  function finish() {
    channel.sendToQueue(queue, Buffer.from('end'), {}, () => {
      latencies.sort((a, b) => a - b);
      const at = (percent) => latencies[Math.ceil((latencies.length * percent) / 100) - 1] / 1e3;
      console.log(JSON.stringify({
        published, confirmed: latencies.length, p50_us: at(50), p99_us: at(99),
      }));
      connection.close();
    });
  }

  function pump() {
    if (isPumping) return;
    isPumping = true;
    while (outstanding < WINDOW && process.hrtime.bigint() < end) {
      const number = published;
      const start = process.hrtime.bigint();
      published += 1;
      outstanding += 1;
      channel.sendToQueue(queue, body(number), {
        contentType: 'application/octet-stream',
        deliveryMode: 2,
        messageId: hex(number, 32),
        timestamp: Math.floor(Date.now() / 1000),
        correlationId: number % 3 === 0 ? hex(number, 32) : undefined,
        headers: {
          traceparent: `00-${hex(number, 32)}-${hex(number, 16)}-01`,
          tenant: `tenant-${number % 5000}`,
          attempt: 1,
        },
      }, (error) => {
        outstanding -= 1;
        if (!error) latencies.push(Number(process.hrtime.bigint() - start));
        pump();
      });
    }
    isPumping = false;
    if (outstanding === 0 && process.hrtime.bigint() >= end) finish();
  }

  waitForStart(() => {
    end = process.hrtime.bigint() + BigInt(Math.round(seconds * 1e9));
    pump();
  });
}

function consume(connection, channel) {
  let received = 0;
  let corrupt = 0;
  let disordered = 0;
  channel.prefetch(WINDOW);
  channel.consume(queue, (message) => {
    const content = message.content;
    channel.ack(message);
    if (content.length === 3) {
      console.log(JSON.stringify({ received, corrupt, disordered }));
      // Behind the ack, which this client writes in the next turn.
      channel.close(() => connection.close());
      return;
    }
    const head = content.subarray(0, 32);
    const digest = zlib.crc32(head, zlib.crc32(content.subarray(40)));
    if (parseInt(content.toString('latin1', 32, 40), 16) !== digest) corrupt += 1;
    else if (parseInt(content.toString('latin1', 0, 16), 16) !== received) disordered += 1;
    received += 1;
  }, {}, (error) => (error ? fail(error) : waitForStart(() => {})));
}

amqplib.connect(`amqp://guest:guest@${host}:${port}/`, (error, connection) => {
  if (error) fail(error);
  connection.on('error', fail);
  const opened = (failure, channel) => {
    if (failure) fail(failure);
    (role === 'publish' ? publish : consume)(connection, channel);
  };
  if (role === 'publish') connection.createConfirmChannel(opened);
  else connection.createChannel(opened);
});
