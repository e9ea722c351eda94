// Who consumes a queue, and who holds which of its messages for how long.

import { html, useMemo } from "../app/html.js";
import { address, apiPath } from "../app/addresses.js";
import { count, duration, plural } from "../app/format.js";
import { usePolled } from "../app/polling.js";
import { sorted } from "../app/sorting.js";
import { Badge, Empty, Failure } from "../parts/notices.js";
import { Table } from "../parts/table.js";

const STATUS_WORDS = { up: "active", single_active: "single active", waiting: "waits for its turn" };

export function QueueConsumers({ queue }) {
  const names = useClientNames();
  const unacked = usePolled(apiPath("queues", queue.vhost, queue.name, "unacked"));
  const consumers = queue.consumer_details ?? [];
  return html`
    <section class="panel flush" aria-label="Consumers"><div class="panel-head"><h2>Consumers</h2><span class="quiet small">${plural(consumers.length, "consumer")}</span></div>
      <${Table} label="Consumers of the queue" rows=${consumers} rowKey=${(row) => `${row.channel_details?.name}\n${row.consumer_tag}`} columns=${[
        { key: "connection", title: "Connection", isMain: true, cell: (row) => html`<a class="name" href=${address("channels", [row.channel_details?.name ?? ""])} title=${row.channel_details?.name}>${names.get(row.channel_details?.connection_name) || row.channel_details?.name}</a>` },
        { key: "tag", title: "Tag", option: 1, cell: (row) => html`<code>${row.consumer_tag}</code>` },
        { key: "user", title: "User", option: 2, cell: (row) => row.channel_details?.user ?? "–" },
        { key: "unacked", title: "Unacked", isRight: true, option: 1, cell: (row) => (row.unacked === undefined ? "–" : count(row.unacked)) },
        { key: "prefetch", title: "Prefetch", isRight: true, cell: (row) => (row.prefetch_count ? count(row.prefetch_count) : "unlimited") },
        { key: "ack", title: "Acks", option: 2, cell: (row) => (row.ack_required === false ? html`<${Badge}>automatic<//>` : "by the consumer") },
        { key: "status", title: "Status", cell: (row) => html`<${Badge} level=${row.activity_status === "waiting" ? "warn" : "good"}>${STATUS_WORDS[row.activity_status] ?? row.activity_status ?? "active"}<//>` },
        { key: "arguments", title: "Arguments", option: 3, cell: (row) => (Object.keys(row.arguments ?? {}).length ? html`<code>${JSON.stringify(row.arguments)}</code>` : html`<span class="zero">–</span>`) },
      ]} empty=${{ title: "Nobody consumes this queue", text: "A consumer appears here as soon as a client calls basic.consume.", icon: "users" }} />
    </section>
    <${Unacked} queue=${queue} answer=${unacked} names=${names} />`;
}

function Unacked({ queue, answer, names }) {
  const rows = unackedRows(answer.value, names);
  const ordered = sorted(rows, (row) => row.seconds, true);
  return html`<section class="panel flush" aria-label="Unacked messages">
    <div class="panel-head"><h2>Unacked: who holds what, for how long</h2><span class="quiet small">${plural(queue.messages_unacknowledged ?? 0, "message")}</span></div>
    ${answer.error && html`<div style=${{ padding: "14px 18px" }}><${Failure} error=${answer.error} what="The list of unacked messages" /></div>`}
    ${rows.length > 0 && html`<${Table} label="Unacked messages" rows=${ordered} rowKey=${(row) => row.key} columns=${[
      { key: "connection", title: "Held by", isMain: true, cell: (row) => html`<a class="name" href=${address("channels", [row.channel])}>${row.holder}</a>` },
      { key: "tag", title: "Consumer", option: 1, cell: (row) => html`<code>${row.tag || "basic.get"}</code>` },
      { key: "count", title: "Messages", isRight: true, cell: (row) => count(row.messages) },
      { key: "offset", title: "Offset", isRight: true, option: 1, cell: (row) => (row.offset === null ? "–" : html`<a href=${address("queues", [queue.vhost, queue.name, "messages"], { from: row.offset })}>${count(row.offset)}</a>`) },
      { key: "age", title: "Longest held", isRight: true, cell: (row) => html`<${Badge} level=${row.seconds > 300 ? "bad" : row.seconds > 30 ? "warn" : ""}>${duration(row.seconds)}<//>` },
    ]} />`}
    ${answer.value && rows.length === 0 && html`<${Empty} icon="good" title="Nothing is unacked" text="Every delivered message is acknowledged." />`}
    ${answer.isLoading && html`<div style=${{ padding: "16px 18px" }}><div class="skeleton"></div></div>`}
  </section>`;
}

/** The answer of the server as rows; a row is a run of deliveries of one consumer. */
function unackedRows(value, names) {
  return (value?.items ?? []).map((row) => ({
    key: `${row.channel_name} ${row.delivery_tag}`,
    channel: row.channel_name,
    holder: names.get(connectionOf(row.channel_name)) || row.channel_name,
    tag: row.consumer_tag,
    messages: row.count,
    offset: row.first_offset ?? null,
    seconds: row.unacked_for_seconds,
  }));
}

/** The name of a channel is that of its connection, and its number in brackets. */
const connectionOf = (channel) => channel.replace(/ \(\d+\)$/, "");

/** By the name of a connection, the name that its client gave it. */
function useClientNames() {
  const connections = usePolled("connections?columns=name,user_provided_name", 15000);
  return useMemo(() => new Map((connections.value ?? []).map((row) => [row.name, row.user_provided_name])), [connections.value]);
}
