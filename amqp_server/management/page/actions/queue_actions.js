// What an operator does to a queue. Each dialog says first what will happen, and to how many messages.

import { html } from "../app/html.js";
import { address, apiPath } from "../app/addresses.js";
import { adminLine } from "../app/command_lines.js";
import { count, plural } from "../app/format.js";
import { plainHeaders } from "../app/message_bodies.js";
import { go } from "../app/location.js";
import { announceChange } from "../app/polling.js";
import { ask } from "../app/server.js";
import { ActionDialog, openDialog } from "../parts/dialog.js";
import { Check, jsonObject, Select, TextArea, TextField } from "../parts/fields.js";
import { MessageView } from "../parts/message_view.js";
import { Notice, toast } from "../parts/notices.js";

const queuePath = (queue, ...rest) => apiPath("queues", queue.vhost, queue.name, ...rest);

export function openPurge(queue) {
  openDialog((close) => html`<${ActionDialog} onClose=${close} title=${`Purge “${queue.name}”`} isCaution
    confirm=${`Purge ${plural(queue.messages_ready ?? 0, "message")}`}
    fields=${() => html`<p><strong>${plural(queue.messages_ready ?? 0, "ready message")}</strong> leave the queue and are not delivered.
      ${queue.messages_unacknowledged ? ` ${plural(queue.messages_unacknowledged, "message")} that consumers hold stay with them.` : ""}
      ${" "}The queue itself, its bindings and consumers stay.</p>`}
    request=${() => ({ method: "DELETE", path: queuePath(queue, "contents") })}
    command=${() => adminLine(queue.vhost, "purge queue", { name: queue.name })}
    done=${`Purged “${queue.name}”.`} />`);
}

export function openDelete(queue) {
  openDialog((close) => html`<${ActionDialog} onClose=${close} title=${`Delete the queue “${queue.name}”`} isDestructive
    confirm="Delete the queue" initial=${{ typed: "", ifEmpty: false, ifUnused: false }}
    fields=${(values, set) => html`
      <${Notice} level="bad">The queue goes with <strong>${plural(queue.messages ?? 0, "message")}</strong>, its bindings and its history.
        ${queue.consumers ? ` ${plural(queue.consumers, "consumer")} lose it.` : ""} This cannot be undone.<//>
      <div class="split">
        <${Check} label="Only if it is empty" checked=${values.ifEmpty} onChange=${set("ifEmpty")} />
        <${Check} label="Only if it has no consumers" checked=${values.ifUnused} onChange=${set("ifUnused")} />
      </div>
      <${TextField} label="Type the name of the queue to confirm" isFull isMono value=${values.typed} onInput=${set("typed")} />`}
    request=${(values) => values.typed !== queue.name ? null : ({
      method: "DELETE",
      path: queuePath(queue) + conditions(values),
    })}
    command=${(values) => (values.ifEmpty || values.ifUnused ? null : adminLine(queue.vhost, "delete queue", { name: queue.name }))}
    done=${`Deleted “${queue.name}”.`} leaves onDone=${() => go("queues")} />`);
}

function conditions({ ifEmpty, ifUnused }) {
  const wanted = [ifEmpty && "if-empty=true", ifUnused && "if-unused=true"].filter(Boolean);
  return wanted.length ? `?${wanted.join("&")}` : "";
}

/** Publish to a queue by the default exchange, or to an exchange of any name. */
export function openPublish({ vhost, exchange = "", routingKey = "", title, message = null }) {
  const { headers, content_type: contentType = "", delivery_mode: mode = 2, ...properties } = plainHeaders(message?.properties ?? {});
  openDialog((close) => html`<${ActionDialog} onClose=${close} isWide title=${title} confirm="Publish"
    initial=${{
      exchange, routingKey, contentType,
      payload: message ? (message.body ?? message.payload ?? "") : "",
      headers: headers ? JSON.stringify(headers) : "",
      properties: Object.keys(properties).length ? JSON.stringify(properties) : "",
      persistent: mode === 2,
    }}
    fields=${(values, set) => html`<div class="fields">
      <${TextField} label="Routing key" isMono value=${values.routingKey} onInput=${set("routingKey")} />
      <${TextField} label="Content type" isMono placeholder="application/json" value=${values.contentType} onInput=${set("contentType")} />
      <${TextArea} label="Body" value=${values.payload} onInput=${set("payload")} data-autofocus />
      <${TextField} label="Headers (JSON)" isFull isMono placeholder=${'{"customer": 7}'} value=${values.headers} onInput=${set("headers")} />
      <${TextField} label="Other properties (JSON)" isFull isMono placeholder=${'{"message_id": "1", "expiration": "60000", "priority": 5}'} value=${values.properties} onInput=${set("properties")} />
      <${Check} label="Persistent: it survives a restart in a durable queue" checked=${values.persistent} onChange=${set("persistent")} />
    </div>`}
    request=${(values) => ({
      method: "POST",
      path: apiPath("exchanges", vhost, exchange || "amq.default", "publish"),
      body: {
        properties: {
          ...(values.persistent ? { delivery_mode: 2 } : {}),
          ...(values.contentType ? { content_type: values.contentType } : {}),
          ...(values.headers.trim() ? { headers: jsonObject(values.headers, "Headers") } : {}),
          ...jsonObject(values.properties, "Other properties"),
        },
        routing_key: values.routingKey,
        payload: values.payload,
        payload_encoding: "string",
      },
    })}
    command=${(values) => adminLine(vhost, "publish", { exchange: exchange || "amq.default", routing_key: values.routingKey, payload: values.payload })}
    result=${(answer) => html`<${Notice} level=${answer.routed ? "good" : "warn"} role="status">${answer.routed
      ? "Published and confirmed: the message is in at least one queue."
      : "Not routed: no queue is bound for this routing key, so the message is gone."}<//>`} />`);
}

/** Take messages with basic.get: the form says what becomes of them. */
export function openGetMessages(queue) {
  openDialog((close) => html`<${ActionDialog} onClose=${close} isWide title=${`Get messages of “${queue.name}”`} confirm="Get messages"
    initial=${{ count: "5", ackmode: "ack_requeue_true" }}
    fields=${(values, set) => html`
      <${Notice}><p>To look at messages without touching them, use <a href=${queueAddress(queue, "messages")}>Messages</a>: getting takes them from the queue for a moment.</p><//>
      <div class="fields">
        <${TextField} label="Messages" type="number" min="1" max="1000" value=${values.count} onInput=${set("count")} />
        <${Select} label="Then" value=${values.ackmode} onInput=${set("ackmode")} options=${[
          ["ack_requeue_true", "put them back (marked redelivered)"],
          ["ack_requeue_false", "remove them: acknowledge"],
          ["reject_requeue_false", "remove them: reject, to the dead-letter exchange"],
        ]} />
      </div>`}
    request=${(values) => !(Number(values.count) > 0) ? null : ({
      method: "POST", path: queuePath(queue, "get"),
      body: { count: Number(values.count), ackmode: values.ackmode, encoding: "auto", truncate: 50000 },
    })}
    command=${(values) => adminLine(queue.vhost, "get", { queue: queue.name, count: values.count, ackmode: values.ackmode })}
    result=${(messages) => messages.length === 0 ? html`<${Notice}>The queue has no ready messages.<//>`
      : html`<div class="stack" role="status">${messages.map((message, place) => html`<${MessageView} key=${place} message=${message} />`)}</div>`} />`);
}

export async function setPaused(queue, isPaused) {
  try {
    await ask(queuePath(queue, isPaused ? "pause" : "resume"), { method: "PUT" });
    toast(isPaused ? `Paused “${queue.name}”: consumers get nothing until it is resumed.` : `Resumed “${queue.name}”.`);
    announceChange();
  } catch (error) {
    toast(error.message, "bad");
  }
}

const TYPES = [["classic", "Queue"], ["quorum", "Queue (quorum)"], ["stream", "Stream"]];

export function openDeclareQueue(vhosts, vhost) {
  openDialog((close) => html`<${ActionDialog} onClose=${close} title="New queue" confirm="Create queue" isWide
    initial=${{ vhost, name: "", type: "classic", durable: true, autoDelete: false, arguments: "" }}
    fields=${(values, set) => html`<div class="fields">
        <${TextField} label="Name" isMono value=${values.name} onInput=${set("name")} data-autofocus />
        <${Select} label="Virtual host" options=${vhosts} value=${values.vhost} onInput=${set("vhost")} />
        <${Select} label="Type" options=${TYPES} value=${values.type} onInput=${set("type")} />
      </div>
      <div class="split">
        <${Check} label="Durable" checked=${values.durable} onChange=${set("durable")} />
        <${Check} label="Delete it when the last consumer leaves" checked=${values.autoDelete} onChange=${set("autoDelete")} />
      </div>
      <${TextArea} label="Arguments (JSON)" placeholder=${'{"x-max-length": 100000, "x-dead-letter-exchange": "dlx", "x-retain-for": 86400000}'} value=${values.arguments} onInput=${set("arguments")}
        help="x-max-length, x-overflow, x-message-ttl, x-dead-letter-exchange, x-delivery-limit, x-single-active-consumer, x-max-priority, x-retain-for …" />`}
    request=${(values) => values.name === "" ? null : ({
      method: "PUT", path: apiPath("queues", values.vhost, values.name),
      body: { durable: values.durable, auto_delete: values.autoDelete, arguments: { "x-queue-type": values.type, ...jsonObject(values.arguments, "Arguments") } },
    })}
    command=${(values) => adminLine(values.vhost, "declare queue", { name: values.name || "NAME", durable: values.durable, auto_delete: values.autoDelete, arguments: { "x-queue-type": values.type, ...jsonObject(values.arguments, "Arguments") } })}
    done=${(_, values) => `The queue “${values.name}” is there.`} onDone=${(_, values) => go("queues", [values.vhost, values.name])} />`);
}

/** Bind a queue or an exchange to an exchange. */
export function openBind({ vhost, source = "", destination = "", destinationType = "queue", sources, destinations }) {
  openDialog((close) => html`<${ActionDialog} onClose=${close} title=${destination ? `Bind “${destination}” to an exchange` : `Bind to “${source}”`} confirm="Add binding"
    initial=${{ source, destination, destinationType, routingKey: "", arguments: "" }}
    fields=${(values, set) => html`<div class="fields">
      ${sources && html`<${Select} label="Exchange" options=${["", ...sources]} value=${values.source} onInput=${set("source")} />`}
      ${destinations && html`<${Select} label="To a" options=${[["queue", "queue"], ["exchange", "exchange"]]} value=${values.destinationType} onInput=${set("destinationType")} />
        <${Select} label="Name" options=${["", ...destinations[values.destinationType]]} value=${values.destination} onInput=${set("destination")} />`}
      <${TextField} label="Routing key" isMono value=${values.routingKey} onInput=${set("routingKey")} />
      <${TextField} label="Arguments (JSON)" isMono isFull value=${values.arguments} onInput=${set("arguments")} help="For exchanges of type headers, such as {&quot;x-match&quot;: &quot;all&quot;, &quot;kind&quot;: &quot;order&quot;}" />
    </div>`}
    request=${(values) => values.source === "" || values.destination === "" ? null : ({
      method: "POST", path: apiPath("bindings", vhost, "e", values.source, values.destinationType === "queue" ? "q" : "e", values.destination),
      body: { routing_key: values.routingKey, arguments: jsonObject(values.arguments, "Arguments") },
    })}
    command=${(values) => adminLine(vhost, "declare binding", { source: values.source || "EXCHANGE", destination_type: values.destinationType, destination: values.destination || "NAME", routing_key: values.routingKey, arguments: values.arguments.trim() ? jsonObject(values.arguments, "Arguments") : undefined })}
    done="The binding is there." />`);
}

export function openUnbind(binding) {
  const kind = binding.destination_type === "queue" ? "q" : "e";
  openDialog((close) => html`<${ActionDialog} onClose=${close} isDestructive title="Remove the binding" confirm="Remove binding"
    fields=${() => html`<p>Messages with the routing key <code>${binding.routing_key || "(empty)"}</code> no longer go from
      <strong> ${binding.source} </strong> to <strong>${binding.destination}</strong>.</p>`}
    request=${() => ({ method: "DELETE", path: apiPath("bindings", binding.vhost, "e", binding.source, kind, binding.destination, binding.properties_key) })}
    command=${() => adminLine(binding.vhost, "delete binding", { source: binding.source, destination_type: binding.destination_type, destination: binding.destination, properties_key: binding.properties_key })}
    done="The binding is gone." />`);
}

/** Several queues at once: purge or delete, one request after the other, with what failed. */
export function openBulk(queues, kind, onDone) {
  const words = { purge: ["Purge", "purged"], delete: ["Delete", "deleted"] }[kind];
  const isDelete = kind === "delete";
  const messages = queues.reduce((sum, queue) => sum + ((isDelete ? queue.messages : queue.messages_ready) ?? 0), 0);
  const path = (queue) => queuePath(queue, ...(isDelete ? [] : ["contents"]));
  let isStopped = false;
  openDialog((close) => html`<${ActionDialog} isDestructive=${isDelete} isCaution=${!isDelete}
    onClose=${() => { isStopped = true; close(); }}
    title=${`${words[0]} ${plural(queues.length, "queue")}`} confirm=${`${words[0]} ${plural(queues.length, "queue")}`} initial=${{ typed: "", done: null }}
    fields=${(values, set) => html`
      <p>${isDelete ? "The queues go with" : "From the queues go"} <strong>${plural(messages, "message")}</strong>.${isDelete ? " This cannot be undone." : " Queues, bindings and consumers stay."}</p>
      <div class="body-view" tabindex="0" role="region" aria-label="Chosen queues">${queues.slice(0, 200).map((queue) => html`<div key=${`${queue.vhost}\n${queue.name}`}>${queue.name} <span class="quiet">${queue.vhost}, ${count(queue.messages)}</span></div>`)}
        ${queues.length > 200 && html`<div class="quiet">and ${count(queues.length - 200)} more</div>`}</div>
      ${isDelete && html`<${TextField} label=${`Type ${queues.length} to confirm`} isMono value=${values.typed} onInput=${set("typed")} />`}
      ${values.done !== null && html`<div class="progress" role="progressbar" aria-label=${words[1]} aria-valuenow=${values.done} aria-valuemin="0" aria-valuemax=${queues.length}>
        <span style=${{ width: `${((values.done / queues.length) * 100).toFixed(1)}%` }}></span></div>
        <p class="quiet small" role="status">${count(values.done)} of ${plural(queues.length, "queue")}. Closing this stops it.</p>`}`}
    request=${(values) => isDelete && values.typed !== String(queues.length) ? null : ({ method: "DELETE", path: path(queues[0]) })}
    before=${(_, __, set) => eachQueue(queues, (queue) => ask(path(queue), { method: "DELETE" }), set("done"), () => isStopped)}
    command=${() => queues.slice(0, 200).map((queue) => adminLine(queue.vhost, isDelete ? "delete queue" : "purge queue", { name: queue.name })).join("\n")}
    done=${(failed) => `${plural(queues.length - failed.length, "queue")} ${words[1]}.`}
    onDone=${(failed) => {
      for (const { queue, error } of failed.slice(0, 3)) toast(`${queue.name}: ${error.message}`, "bad");
      onDone(failed);
    }} />`);
}

const AT_ONCE = 6;

/** Do something to each of the queues, a few at a time; return those that failed, or were not reached. */
async function eachQueue(queues, act, onProgress, isStopped) {
  const failed = [];
  const waiting = queues.slice();
  let done = 0;
  const work = async () => {
    for (let queue = waiting.shift(); queue; queue = waiting.shift()) {
      if (isStopped()) {
        failed.push({ queue, error: new Error("stopped before its turn") });
        continue;
      }
      try {
        await act(queue);
      } catch (error) {
        failed.push({ queue, error });
      }
      done += 1;
      onProgress(done);
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, work));
  return failed;
}

/** The address of a queue's view. */
export function queueAddress(queue, tab = "") {
  return address("queues", [queue.vhost, queue.name, ...(tab ? [tab] : [])]);
}
