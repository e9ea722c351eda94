// What an operator does to a queue. Each dialog says first what will happen, and to how many messages.

import { html } from "../app/html.js";
import { address, apiPath } from "../app/addresses.js";
import { adminLine, commandLine } from "../app/command_lines.js";
import { count, plural } from "../app/format.js";
import { plainHeaders } from "../app/message_bodies.js";
import { go } from "../app/location.js";
import { announceChange } from "../app/polling.js";
import { ask } from "../app/server.js";
import { ActionDialog, openDialog } from "../parts/dialog.js";
import { Check, jsonObject, Select, TextArea, TextField } from "../parts/fields.js";
import { MessageView } from "../parts/message_view.js";
import { Notice, toast } from "../parts/notices.js";
import { moveMessages } from "./moving.js";

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

export function openMove(queue, queues) {
  openMoveDialog({
    title: `Move the messages of “${queue.name}”`,
    sources: [queue],
    fields: (values, set) => html`<${Select} label="To" value=${values.to} onInput=${set("to")} options=${[["", "Choose a queue"],
      ...queues.filter(({ name, vhost }) => vhost === queue.vhost && name !== queue.name).map(({ name }) => [name, name])]} />`,
    isReady: (values) => values.to !== "",
    target: (values) => () => values.to,
    done: (moved, values) => `Moved ${plural(moved.moved, "message")} to “${values.to}”.`,
  });
}

/** Dead letters go back to the queue that they died in. */
export function openReturnDeadLetters(queue, initial = {}) {
  openDialog((close) => html`<${ActionDialog} onClose=${close} isWide title=${`Return dead letters of “${queue.name}”`}
    confirm=${(values) => (values.dryRun ? "Count only" : "Return dead letters")}
    initial=${{ start: "first", until: "", filter: "", dryRun: true, ...initial }}
    fields=${(values, set) => html`
      <p>Each ready message goes back to the queue in which it died, and leaves this one when it is on the disk there. Messages that never died stay.</p>
      <div class="fields">
        <${TextField} label="From" isMono value=${values.start} onInput=${set("start")} help="An offset, an age (1h), a time, or first" />
        <${TextField} label="Until (exclusive)" isMono value=${values.until} onInput=${set("until")} help="Empty: the end" />
        <${TextField} label="Only with the header" isMono placeholder="customer=7" value=${values.filter} onInput=${set("filter")} />
      </div>
      <${Check} label="Only count, move nothing" checked=${values.dryRun} onChange=${set("dryRun")} />`}
    request=${(values) => values.start === "" ? null : ({
      method: "POST", path: queuePath(queue, "dead-letters", "return"),
      body: { from: values.start, until: values.until, filters: values.filter ? [values.filter] : [], dry_run: values.dryRun },
    })}
    result=${(answer) => html`<${Notice} level="good" role="status">${answer.is_dry_run ? "Would return" : "Returned"} <strong>${plural(answer.returned ?? 0, "dead letter")}</strong>${
      (answer.queues ?? []).length ? `: ${answer.queues.map(({ queue: name, returned }) => `${count(returned)} to ${name}`).join(", ")}` : ""}.
      ${leftWords(answer.left)}<//>`} />`);
}

function leftWords(left = {}) {
  const words = [[left.no_death, "without a death"], [left.no_queue, "whose queue is gone"], [left.refused, "that the queue refuses"]];
  return words.filter(([number]) => number).map(([number, why]) => `${plural(number, "message")} ${why} ${number === 1 ? "stays" : "stay"}.`).join(" ");
}

export function openBulkMove(chosen, queues, onDone) {
  const [{ vhost }] = chosen;
  const names = new Set(chosen.map(({ name }) => name));
  const isOneHost = chosen.every((queue) => queue.vhost === vhost);
  openMoveDialog({
    title: `Move the messages of ${plural(chosen.length, "queue")}`,
    sources: chosen,
    fields: (values, set) => isOneHost ? html`<${Select} label="To" value=${values.to} onInput=${set("to")} options=${[["", "Choose a queue"],
        ...queues.filter((queue) => queue.vhost === vhost && !names.has(queue.name)).map(({ name }) => [name, name])]} />`
      : html`<${Notice} level="warn">Choose queues of one virtual host: messages are moved inside of it.<//>`,
    isReady: (values) => isOneHost && values.to !== "",
    target: (values) => () => values.to,
    done: (moved, values) => `Moved ${plural(moved.moved, "message")} to “${values.to}”.`,
    onDone,
  });
}

function openMoveDialog({ title, sources, fields, isReady, target, done, onDone = () => {} }) {
  const ready = sources.reduce((sum, queue) => sum + (queue.messages_ready ?? 0), 0);
  let stop = false;
  openDialog((close) => html`<${ActionDialog} title=${title} confirm="Move messages" isCaution initial=${{ to: "", progress: null }}
    onClose=${() => { stop = true; close(); }}
    fields=${(values, set) => html`
      <p><strong>${plural(ready, "ready message")}</strong>: each is published to its new queue first, and leaves this one when that is confirmed.
        None is lost. If this page is closed meanwhile, the rest stays where it is.</p>
      ${fields(values, set)}
      ${values.progress !== null && html`<div class="progress" role="progressbar" aria-label="Moved" aria-valuenow=${values.progress} aria-valuemin="0" aria-valuemax=${ready}>
        <span class="c1" style=${{ display: "block", height: "100%", width: `${Math.min(100, (values.progress / Math.max(1, ready)) * 100)}%` }}></span></div>`}`}
    request=${(values) => isReady(values) ? { method: "POST", path: queuePath(sources[0], "get"), body: { count: 50, ackmode: "ack_requeue_false", encoding: "base64" } } : null}
    showsCommands=${false}
    before=${async (values, _, set) => {
      const total = { moved: 0, kept: 0, repeated: 0 };
      for (const queue of sources) {
        const moved = await moveMessages(queue, target(values), queue.messages_ready ?? 0, {
          onProgress: (number) => set("progress")(total.moved + number), isStopped: () => stop,
        });
        for (const key of Object.keys(total)) total[key] += moved[key];
      }
      return total;
    }}
    done=${(moved, values) => done(moved, values) + (moved.repeated ? ` ${plural(moved.repeated, "message")} a consumer took at the same moment: they are there twice.` : "")}
    onDone=${onDone} />`);
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

export function openReplay(queue, queues, initial = {}) {
  openDialog((close) => html`<${ActionDialog} onClose=${close} isWide title=${`Replay messages of “${queue.name}”`}
    confirm=${(values) => (values.dryRun ? "Count only" : "Replay")}
    initial=${{ start: "1h", until: "", to: "", filter: "", all: false, dryRun: true, ...initial }}
    fields=${(values, set) => html`
      <p>Publishes messages that consumers have finished, and that are still in the log, again. They are new messages at the end of the queue.</p>
      <div class="fields">
        <${TextField} label="From" isMono value=${values.start} onInput=${set("start")} help="An offset, an age (1h), a time (2026-08-01T12:00), or first" />
        <${TextField} label="Until (exclusive)" isMono value=${values.until} onInput=${set("until")} help="Empty: the end" />
        <${Select} label="To" value=${values.to} onInput=${set("to")} options=${[["", queue.type === "stream" ? "Choose a queue" : "The same queue"],
          ...queues.filter(({ name, vhost }) => vhost === queue.vhost && name !== queue.name).map(({ name }) => [name, name])]} />
        <${TextField} label="Only with the header" isMono placeholder="customer=7" value=${values.filter} onInput=${set("filter")} />
      </div>
      <${Check} label="Also copy messages that are ready or unacked" checked=${values.all} onChange=${set("all")} />
      <${Check} label="Only count, publish nothing" checked=${values.dryRun} onChange=${set("dryRun")} />`}
    request=${(values) => values.start === "" || (queue.type === "stream" && values.to === "") ? null : ({
      method: "POST", path: queuePath(queue, "replay"),
      body: {
        from: values.start, until: values.until, to: values.to, filters: values.filter ? [values.filter] : [],
        include: values.all ? "all" : "settled", dry_run: values.dryRun,
      },
    })}
    command=${(values) => commandLine("amqp-server", "replay", "--vhost", queue.vhost, "--queue", queue.name, "--from", values.start,
      ...(values.until ? ["--until", values.until] : []), ...(values.to ? ["--to", values.to] : []),
      ...(values.filter ? ["--filter", values.filter] : []), ...(values.all ? ["--include", "all"] : []), values.dryRun ? "--dry-run" : null)}
    result=${(answer) => html`<${Notice} level="good" role="status">${answer.is_dry_run ? "Would replay" : "Replayed"} <strong>${plural(answer.replayed ?? 0, "message")}</strong>${
      Number.isFinite(answer.first_offset) ? `, offsets ${count(answer.first_offset)} to ${count(answer.last_offset)}` : ""}.<//>`} />`);
}

const TYPES = [["classic", "Queue"], ["quorum", "Queue (quorum)"], ["stream", "Stream"]];

export function openDeclareQueue(vhosts, vhost) {
  openDialog((close) => html`<${ActionDialog} onClose=${close} title="New queue" confirm="Create queue" isWide
    initial=${{ vhost: vhost || vhosts[0], name: "", type: "classic", durable: true, autoDelete: false, arguments: "" }}
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
  openDialog((close) => html`<${ActionDialog} onClose=${close} isDestructive=${isDelete} isCaution=${!isDelete}
    title=${`${words[0]} ${plural(queues.length, "queue")}`} confirm=${`${words[0]} ${plural(queues.length, "queue")}`} initial=${{ typed: "" }}
    fields=${(values, set) => html`
      <p>${isDelete ? "The queues go with" : "From the queues go"} <strong>${plural(messages, "message")}</strong>.${isDelete ? " This cannot be undone." : " Queues, bindings and consumers stay."}</p>
      <div class="body-view" tabindex="0" role="region" aria-label="Chosen queues">${queues.slice(0, 200).map((queue) => html`<div key=${`${queue.vhost}\n${queue.name}`}>${queue.name} <span class="quiet">${queue.vhost}, ${count(queue.messages)}</span></div>`)}
        ${queues.length > 200 && html`<div class="quiet">and ${count(queues.length - 200)} more</div>`}</div>
      ${isDelete && html`<${TextField} label=${`Type ${queues.length} to confirm`} isMono value=${values.typed} onInput=${set("typed")} />`}`}
    request=${(values) => isDelete && values.typed !== String(queues.length) ? null : ({ method: "DELETE", path: path(queues[0]) })}
    before=${() => eachQueue(queues, (queue) => ask(path(queue), { method: "DELETE" }))}
    command=${() => queues.slice(0, 200).map((queue) => adminLine(queue.vhost, isDelete ? "delete queue" : "purge queue", { name: queue.name })).join("\n")}
    done=${(failed) => `${plural(queues.length - failed.length, "queue")} ${words[1]}.`}
    onDone=${(failed) => {
      for (const { queue, error } of failed.slice(0, 3)) toast(`${queue.name}: ${error.message}`, "bad");
      onDone(failed);
    }} />`);
}

async function eachQueue(queues, act) {
  const failed = [];
  for (const queue of queues) {
    try {
      await act(queue);
    } catch (error) {
      failed.push({ queue, error });
    }
  }
  return failed;
}

/** The address of a queue's view. */
export function queueAddress(queue, tab = "") {
  return address("queues", [queue.vhost, queue.name, ...(tab ? [tab] : [])]);
}
