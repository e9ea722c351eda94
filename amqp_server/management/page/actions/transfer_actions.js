// Messages go elsewhere: move, replay, return of dead letters. The broker does it; the page may go.

import { html } from "../app/html.js";
import { apiPath } from "../app/addresses.js";
import { commandLine } from "../app/command_lines.js";
import { plural } from "../app/format.js";
import { announceChange } from "../app/polling.js";
import { ask } from "../app/server.js";
import { resultSentence } from "../app/transfers.js";
import { ActionDialog, openDialog } from "../parts/dialog.js";
import { Check, TextField } from "../parts/fields.js";
import { Notice } from "../parts/notices.js";
import { QueueField } from "../parts/queue_field.js";
import { BegunTransfers } from "../parts/transfer_progress.js";

const queuePath = (queue, ...rest) => apiPath("queues", queue.vhost, queue.name, ...rest);

/** What a dialog shows after its request: a count, or the progress of what has begun. */
const outcome = (kind) => (answer) => (answer.is_dry_run ? html`<${Notice} level="good" role="status"><strong>${resultSentence(kind, answer)}</strong><//>`
  : html`<${BegunTransfers} key=${answer.numbers?.join() ?? answer.transfer} kind=${kind} numbers=${answer.numbers ?? [answer.transfer]} />`);

const isBegun = (answer) => !answer.is_dry_run;

const place = (values) => ({
  from: values.start, until: values.until, filters: values.filter ? [values.filter] : [],
  ...(values.dryRun ? { dry_run: true } : { background: true }),
});

function PlaceFields({ values, set }) {
  return html`
    <${TextField} label="From" isMono value=${values.start} onInput=${set("start")} help="An offset, an age (1h), a time (2026-08-01T12:00), or first" />
    <${TextField} label="Until (exclusive)" isMono value=${values.until} onInput=${set("until")} help="Empty: the end" />
    <${TextField} label="Only with the header" isMono placeholder="customer=7" value=${values.filter} onInput=${set("filter")} />`;
}

const placeWords = (values) => [
  ...(values.start && values.start !== "first" ? ["--from", values.start] : []), ...(values.until ? ["--until", values.until] : []),
  ...(values.filter ? ["--filter", values.filter] : []),
];

export function openMove(queue, queues) {
  const names = otherNames([queue], queues);
  openDialog((close) => html`<${ActionDialog} onClose=${close} isWide isCaution title=${`Move the messages of “${queue.name}”`}
    confirm=${(values) => (values.dryRun ? "Count only" : "Move messages")}
    initial=${{ to: "", start: "first", until: "", filter: "", limit: "", dryRun: false }}
    fields=${(values, set) => html`
      <p><strong>${plural(queue.messages_ready ?? 0, "ready message")}</strong>: each leaves this queue when it is on the disk in the other one.
        None is lost, whatever ends it; what consumers hold stays with them.</p>
      <div class="fields">
        <${QueueField} label="To" names=${names} value=${values.to} onInput=${set("to")} data-autofocus />
        <${TextField} label="At most" type="number" min="1" value=${values.limit} onInput=${set("limit")} help="Empty: all" />
        <${PlaceFields} values=${values} set=${set} />
      </div>
      <${Check} label="Only count, move nothing" checked=${values.dryRun} onChange=${set("dryRun")} />`}
    request=${(values) => !names.includes(values.to) || values.start === "" ? null : ({
      method: "POST", path: queuePath(queue, "move"),
      body: { to: values.to, ...place(values), ...(values.limit ? { limit: Number(values.limit) } : {}) },
    })}
    command=${(values) => commandLine("amqp-server", "queues", "move", "--vhost", queue.vhost, queue.name, "--to", values.to || "QUEUE", ...placeWords(values),
      ...(values.limit ? ["--limit", values.limit] : []), values.dryRun ? "--dry-run" : null)}
    result=${outcome("move")} isOnce=${isBegun} />`);
}

export function openBulkMove(chosen, queues, onDone) {
  const [{ vhost }] = chosen;
  const names = otherNames(chosen, queues);
  const isOneHost = chosen.every((queue) => queue.vhost === vhost);
  const sources = chosen.filter(({ type }) => type !== "stream");
  const ready = sources.reduce((sum, queue) => sum + (queue.messages_ready ?? 0), 0);
  const request = (queue, to) => ({ method: "POST", path: queuePath(queue, "move"), body: { to, background: true } });
  openDialog((close) => html`<${ActionDialog} onClose=${close} isCaution title=${`Move the messages of ${plural(chosen.length, "queue")}`} confirm="Move messages" initial=${{ to: "", progress: null }}
    fields=${(values, set) => html`
      <p><strong>${plural(ready, "ready message")}</strong>: each leaves its queue when it is on the disk in the other one.${sources.length < chosen.length ? ` ${plural(chosen.length - sources.length, "stream")} stay as they are.` : ""}</p>
      ${isOneHost ? html`<${QueueField} label="To" names=${names} value=${values.to} onInput=${set("to")} data-autofocus />`
        : html`<${Notice} level="warn">Choose queues of one virtual host: messages are moved inside of it.<//>`}
      ${values.progress !== null && html`<p class="quiet" role="status">${plural(values.progress, "move")} of ${sources.length} begun</p>`}`}
    request=${(values) => isOneHost && sources.length > 0 && names.includes(values.to) ? request(sources[0], values.to) : null}
    command=${(values) => sources.slice(0, 200).map((queue) => commandLine("amqp-server", "queues", "move", "--vhost", vhost, queue.name, "--to", values.to || "QUEUE")).join("\n")}
    before=${async (values, _, set) => {
      const numbers = [];
      for (const queue of sources.filter(({ messages_ready: waiting }) => waiting)) {
        const wanted = request(queue, values.to);
        numbers.push((await ask(wanted.path, wanted)).transfer);
        set("progress")(numbers.length);
      }
      return { numbers };
    }}
    result=${(answer) => (answer.numbers.length ? outcome("move")(answer) : html`<${Notice} level="good" role="status">The queues have no ready messages.<//>`)}
    isOnce=${isBegun} onDone=${onDone} />`);
}

/** Dead letters go back to the queue that they died in. */
export function openReturnDeadLetters(queue, initial = {}) {
  openDialog((close) => html`<${ActionDialog} onClose=${close} isWide title=${`Return dead letters of “${queue.name}”`}
    confirm=${(values) => (values.dryRun ? "Count only" : "Return dead letters")}
    initial=${{ start: "first", until: "", filter: "", dryRun: true, ...initial }}
    fields=${(values, set) => html`
      <p>Each ready message goes back to the queue in which it died, and leaves this one when it is on the disk there. Messages that never died stay.</p>
      <div class="fields"><${PlaceFields} values=${values} set=${set} /></div>
      <${Check} label="Only count, move nothing" checked=${values.dryRun} onChange=${set("dryRun")} />`}
    request=${(values) => values.start === "" ? null : ({ method: "POST", path: queuePath(queue, "dead-letters", "return"), body: place(values) })}
    command=${(values) => commandLine("amqp-server", "queues", "return-dead-letters", "--vhost", queue.vhost, queue.name, ...placeWords(values), values.dryRun ? "--dry-run" : null)}
    result=${outcome("return")} isOnce=${isBegun} />`);
}

export function openReplay(queue, queues, initial = {}) {
  const names = otherNames([queue], queues);
  openDialog((close) => html`<${ActionDialog} onClose=${close} isWide title=${`Replay messages of “${queue.name}”`}
    confirm=${(values) => (values.dryRun ? "Count only" : "Replay")}
    initial=${{ start: "1h", until: "", to: "", filter: "", all: false, dryRun: true, ...initial }}
    fields=${(values, set) => html`
      <p>Publishes messages that consumers have finished, and that are still in the log, again. They are new messages at the end of the queue.</p>
      <div class="fields">
        <${PlaceFields} values=${values} set=${set} />
        <${QueueField} label="To" names=${names} value=${values.to} onInput=${set("to")} emptyHelp=${queue.type === "stream" ? "A stream is replayed into another queue" : "Empty: the same queue"} />
      </div>
      <${Check} label="Also copy messages that are ready or unacked" checked=${values.all} onChange=${set("all")} />
      <${Check} label="Only count, publish nothing" checked=${values.dryRun} onChange=${set("dryRun")} />`}
    request=${(values) => values.start === "" || (values.to === "" ? queue.type === "stream" : !names.includes(values.to)) ? null : ({
      method: "POST", path: queuePath(queue, "replay"), body: { ...place(values), to: values.to, include: values.all ? "all" : "settled" },
    })}
    command=${(values) => commandLine("amqp-server", "replay", "--vhost", queue.vhost, "--queue", queue.name, "--from", values.start,
      ...(values.until ? ["--until", values.until] : []), ...(values.to ? ["--to", values.to] : []),
      ...(values.filter ? ["--filter", values.filter] : []), ...(values.all ? ["--include", "all"] : []), values.dryRun ? "--dry-run" : null)}
    result=${outcome("replay")} isOnce=${isBegun} />`);
}

export function openCancelDelayed(exchange, message = null, messages = 0) {
  const path = apiPath("exchanges", exchange.vhost, exchange.name, "delayed", ...(message ? [String(message.offset)] : []));
  openDialog((close) => html`<${ActionDialog} onClose=${close} isDestructive title=${message ? "Cancel the delayed message" : `Cancel all delayed messages of “${exchange.name}”`}
    confirm=${message ? "Cancel the message" : `Cancel ${plural(messages, "message")}`}
    fields=${() => html`<${Notice} level="bad">${message ? html`The message with the routing key <code>${message.routing_key}</code> is never delivered.` : html`<strong>${plural(messages, "message")}</strong> that wait now are never delivered.`} This cannot be undone. Messages that come later are delayed as before.<//>`}
    request=${() => ({ method: "DELETE", path })}
    done=${(answer) => `Cancelled ${plural(answer?.messages ?? 0, "message")}.`} onDone=${announceChange} />`);
}

function otherNames(chosen, queues) {
  const [{ vhost }] = chosen;
  const own = new Set(chosen.map(({ name }) => name));
  return queues.filter((queue) => queue.vhost === vhost && !own.has(queue.name)).map(({ name }) => name);
}
