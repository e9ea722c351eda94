// One channel: what it consumes and publishes.

import { html } from "../app/html.js";
import { address, apiPath, apiQuery } from "../app/addresses.js";
import { count, exchangeName, rate } from "../app/format.js";
import { usePolled } from "../app/polling.js";
import { statRate } from "../app/queue_numbers.js";
import { rangeParameters, rateLine } from "../app/samples.js";
import { Chart } from "../parts/chart.js";
import { Facts } from "../parts/facts.js";
import { Badge, Failure } from "../parts/notices.js";
import { PageHead } from "../parts/page_head.js";
import { Table } from "../parts/table.js";
import { State } from "./connections.js";

export default function Channel({ names: [name] }) {
  const answer = usePolled(apiQuery(apiPath("channels", name), rangeParameters("10m", ["msg_rates"])));
  const channel = answer.value;
  const connection = channel?.connection_details?.name;
  const crumbs = [{ text: "Channels", href: "#/channels" }, ...(connection ? [{ text: connection, href: address("connections", [connection]) }] : [])];
  if (!channel) {
    return html`<${PageHead} title=${name} crumbs=${crumbs} /><${Failure} error=${answer.error} what="The channel" />
      ${answer.isLoading && html`<div class="skeleton" style=${{ height: "150px" }} role="status" aria-label="Loading"></div>`}`;
  }
  const stats = channel.message_stats ?? {};
  return html`
    <${PageHead} title=${name} crumbs=${crumbs} badges=${html`<${State} state=${channel.idle_since ? "idle" : channel.state} />`} />
    <${Failure} error=${answer.error} what="The channel" />
    <div class="grid-2">
      <section class="panel" aria-label="About"><h2>About</h2><${Facts} rows=${[
        ["User", channel.user], ["Virtual host", channel.vhost],
        ["Mode", channel.transactional ? "transactions" : channel.confirm ? "publisher confirms" : "no confirms"],
        ["Prefetch", channel.prefetch_count ? count(channel.prefetch_count) : "unlimited"],
        ["Shared prefetch", channel.global_prefetch_count ? count(channel.global_prefetch_count) : null],
        ["Unacked", count(channel.messages_unacknowledged)], ["Unconfirmed", count(channel.messages_unconfirmed)],
        ["Uncommitted", channel.messages_uncommitted ? count(channel.messages_uncommitted) : null], ["Idle since", channel.idle_since],
      ]} /></section>
      <${Chart} title="Messages per second" series=${[
        { label: "Published", color: 1, points: rateLine(stats.publish_details) },
        { label: "Delivered", color: 2, points: rateLine(stats.deliver_get_details) },
        { label: "Acknowledged", color: 3, points: rateLine(stats.ack_details) },
      ].filter(({ points }) => points.some(([, value]) => value > 0))} />
    </div>
    <section class="panel flush" aria-label="Consumers"><div class="panel-head"><h2>Consumers</h2></div>
      <${Table} label="Consumers of the channel" rows=${channel.consumer_details ?? []} rowKey=${(row) => row.consumer_tag} columns=${[
        { key: "queue", title: "Queue", isMain: true, value: (row) => row.queue.name, cell: (row) => html`<a class="name" href=${address("queues", [row.queue.vhost, row.queue.name])}>${row.queue.name}</a>` },
        { key: "tag", title: "Tag", cell: (row) => html`<code>${row.consumer_tag}</code>` },
        { key: "ack", title: "Acks", option: 1, cell: (row) => (row.ack_required ? "by the consumer" : html`<${Badge}>automatic<//>`) },
        { key: "prefetch", title: "Prefetch", isRight: true, cell: (row) => (row.prefetch_count ? count(row.prefetch_count) : "unlimited") },
      ]} empty=${{ title: "It consumes nothing", icon: "queue" }} /></section>
    ${channel.publishes?.length ? html`<section class="panel flush" aria-label="Publishes"><div class="panel-head"><h2>Publishes to</h2></div>
      <${Table} label="Exchanges that the channel publishes to" rows=${channel.publishes} rowKey=${(row) => row.exchange.name} columns=${[
        { key: "exchange", title: "Exchange", isMain: true, value: (row) => exchangeName(row.exchange.name), cell: (row) => html`<a class="name" href=${address("exchanges", [row.exchange.vhost, row.exchange.name || "amq.default"])}>${exchangeName(row.exchange.name)}</a>` },
        { key: "rate", title: "Publish", isRight: true, cell: (row) => rate(row.stats ? statRate({ message_stats: row.stats }, "publish") : NaN) },
      ]} /></section>` : null}`;
}
