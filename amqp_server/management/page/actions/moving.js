// Messages from one queue to others, so that none is lost whatever happens in between.

import { apiPath, apiQuery } from "../app/addresses.js";
import { bodyOctets, plainHeaders } from "../app/message_bodies.js";
import { ask } from "../app/server.js";

const BATCH = 50;

/**
 * Move ready messages. Each is looked at, published, and taken from its queue only after the confirm of the publish.
 *
 * Args:
 *   queue: {vhost, name} of the queue that they leave.
 *   targetOf(message): Name of the queue that gets it; null leaves it where it is.
 *   countMax: At most so many.
 *   onProgress(moved), isStopped(): Called after each batch, asked before it.
 *
 * Returns {moved, kept, repeated}; `repeated` were published, and a consumer had taken them at the same moment.
 */
export async function moveMessages(queue, targetOf, countMax, { onProgress = () => {}, isStopped = () => false } = {}) {
  const path = (...rest) => apiPath("queues", queue.vhost, queue.name, ...rest);
  const result = { moved: 0, kept: 0, repeated: 0 };
  while (result.moved < countMax && !isStopped()) {
    const limit = Math.min(BATCH, countMax - result.moved);
    const page = await ask(apiQuery(path("messages"), { from: "first", state: "ready", limit, body_bytes: -1 }));
    // The oldest messages are taken below, in their order: one that stays ends the work here.
    const movable = [];
    for (const message of page.items) {
      const target = targetOf(message);
      if (target === null) {
        result.kept += 1;
        break;
      }
      movable.push({ message, target });
    }
    if (movable.length === 0) break;
    const published = new Map();
    for (const { message, target } of movable) {
      await publish(queue, message, target);
      const key = fingerprint(message);
      published.set(key, (published.get(key) ?? 0) + 1);
    }
    const taken = await ask(path("get"), {
      method: "POST", body: { count: movable.length, ackmode: "ack_requeue_false", encoding: "base64" },
    });
    let matched = 0;
    for (const message of taken) {
      const key = fingerprint(message);
      if (published.get(key)) {
        published.set(key, published.get(key) - 1);
        matched += 1;
      } else {
        // Another consumer was faster: what came instead follows, or goes back to the end of its queue.
        await publish(queue, message, targetOf(message) ?? queue.name);
      }
    }
    result.moved += taken.length;
    result.repeated += movable.length - matched;
    onProgress(result.moved);
    if (taken.length === 0) break;
  }
  return result;
}

async function publish(queue, message, target) {
  const { routed } = await ask(apiPath("exchanges", queue.vhost, "amq.default", "publish"), {
    method: "POST",
    body: {
      properties: {
        ...message.properties,
        headers: { ...plainHeaders(message.properties?.headers), "x-moved-from": queue.name },
      },
      routing_key: target,
      payload: toBase64(bodyOctets(message)),
      payload_encoding: "base64",
    },
  });
  if (!routed) throw new Error(`The queue “${target}” does not exist: the message stays in “${queue.name}”.`);
}

function fingerprint(message) {
  const { message_id: id = "", correlation_id: correlation = "" } = message.properties ?? {};
  return [message.exchange, message.routing_key, id, correlation, toBase64(bodyOctets(message))].join("\n");
}

function toBase64(octets) {
  let text = "";
  for (const octet of octets) text += String.fromCharCode(octet);
  return btoa(text);
}
