// One exchange: what comes in, where it goes, and a publish to try it.

import { html } from "../app/html.js";
import { address, apiPath, apiQuery } from "../app/addresses.js";
import { exchangeName, plural, rate, vhostCrumb } from "../app/format.js";
import { usePolled } from "../app/polling.js";
import { statRate } from "../app/queue_numbers.js";
import { rangeParameters, rateLine } from "../app/samples.js";
import { openDeleteExchange } from "../actions/exchange_actions.js";
import { openBind, openPublish, openUnbind } from "../actions/queue_actions.js";
import { Chart } from "../parts/chart.js";
import { DelayedMessages } from "../parts/delayed_messages.js";
import { Entries, Facts } from "../parts/facts.js";
import { Icon } from "../parts/icon.js";
import { Badge, Failure, Notice } from "../parts/notices.js";
import { PageHead } from "../parts/page_head.js";
import { Table } from "../parts/table.js";

export default function Exchange({ names: [vhost, name] }) {
  const path = apiPath("exchanges", vhost, name);
  const answer = usePolled(apiQuery(path, rangeParameters("10m", ["msg_rates"])));
  const outgoing = usePolled(`${path}/bindings/source`);
  const incoming = usePolled(`${path}/bindings/destination`);
  const queues = usePolled("queues?columns=name,vhost&disable_stats=true", 0);
  const exchanges = usePolled("exchanges?columns=name,vhost,type", 0);
  const isDefault = name === "amq.default" || name === "";
  const title = isDefault ? "(default exchange)" : name;
  const crumbs = [{ text: "Exchanges", href: "#/exchanges" }, { text: vhostCrumb(vhost) }];
  const exchange = answer.value;
  if (!exchange) {
    return html`<${PageHead} title=${title} crumbs=${crumbs} /><${Failure} error=${answer.error} what="The exchange" />
      ${answer.isLoading && html`<div class="skeleton" style=${{ height: "150px" }} role="status" aria-label="Loading"></div>`}`;
  }
  const stats = exchange.message_stats ?? {};
  const inVhost = (rows) => (rows.value ?? []).filter((row) => row.vhost === vhost && row.name !== "").map((row) => row.name);
  const isOwn = name.startsWith("amq.") || isDefault;
  const unbound = outgoing.value && outgoing.value.length === 0 && !isDefault;
  return html`
    <${PageHead} title=${title} crumbs=${crumbs} path=${answer.path}
      lead=${html`${rate(statRate(exchange, "publish_in"))} in, ${rate(statRate(exchange, "publish_out"))} to queues`}
      badges=${html`<${Badge}>${exchange.type}<//>${exchange.internal && html`<${Badge}>internal<//>`}${!exchange.durable && html`<${Badge}>transient<//>`}`}
      actions=${html`
        <button type="button" class="button" disabled=${exchange.internal} onClick=${() => openPublish({ vhost, exchange: isDefault ? "" : name, title: `Publish to “${title}”` })}><${Icon} name="send" small />Publish</button>
        ${!isDefault && html`<button type="button" class="button" disabled=${!queues.value || !exchanges.value} onClick=${() => openBind({ vhost, source: name, destinations: { queue: inVhost(queues), exchange: inVhost(exchanges) } })}><${Icon} name="plus" small />Add binding</button>`}
        ${!isOwn && html`<button type="button" class="button danger" onClick=${() => openDeleteExchange(exchange)}><${Icon} name="trash" small />Delete</button>`}`} />
    <${Failure} error=${answer.error} what="The exchange" />
    ${unbound && html`<${Notice} level="warn"><strong>Nothing is bound to this exchange.</strong> What publishers send to it is dropped, or returned to them when it is mandatory${exchange.arguments?.["alternate-exchange"] ? ", or goes to the alternate exchange" : ""}.<//>`}
    <div class="main-aside">
      <${Chart} title="Messages per second" series=${[
        { label: "In", color: 1, points: rateLine(stats.publish_in_details) },
        { label: "To queues", color: 2, points: rateLine(stats.publish_out_details) },
      ]} />
      <section class="panel" aria-label="Settings"><h2>Settings</h2>
        <${Facts} rows=${[["Type", exchange.type], ["Durable", exchange.durable ? "yes" : "no"], ["Auto-delete", exchange.auto_delete ? "yes" : null], ["Policy", exchange.policy], ["Declared by", exchange.user_who_performed_action]]} />
        ${Object.keys(exchange.arguments ?? {}).length > 0 && html`<${Entries} entries=${exchange.arguments} />`}</section>
    </div>
    ${exchange.type === "x-delayed-message" && html`<${DelayedMessages} exchange=${{ vhost, name }} />`}
    <section class="panel flush" aria-label="Bindings from here"><div class="panel-head"><h2>Goes to</h2><span class="quiet small">${plural(outgoing.value?.length ?? 0, "binding")}</span></div>
      <${Bindings} label="Bindings from this exchange" answer=${outgoing} side="destination" isFixed=${isDefault} /></section>
    ${incoming.value?.length ? html`<section class="panel flush" aria-label="Bindings to here"><div class="panel-head"><h2>Comes from</h2></div>
      <${Bindings} label="Bindings to this exchange" answer=${incoming} side="source" /></section>` : null}`;
}

function Bindings({ label, answer, side, isFixed = false }) {
  const partner = (row) => row[side];
  const view = (row) => (side === "destination" && row.destination_type === "queue" ? "queues" : "exchanges");
  return html`<${Table} label=${label} rows=${answer.value ?? []} isLoading=${answer.isLoading} rowKey=${(row) => `${row.source}\n${row.destination_type}\n${row.destination}\n${row.properties_key}`} columns=${[
    { key: "partner", title: side === "source" ? "Exchange" : "To", isMain: true, cell: (row) => html`<a class="name" href=${address(view(row), [row.vhost, partner(row) || "amq.default"])}>${exchangeName(partner(row))}</a>` },
    { key: "kind", title: "Kind", option: 1, cell: (row) => (side === "source" ? "exchange" : row.destination_type) },
    { key: "key", title: "Routing key", cell: (row) => html`<code>${row.routing_key || html`<span class="quiet">(empty)</span>`}</code>` },
    { key: "arguments", title: "Arguments", option: 1, cell: (row) => (Object.keys(row.arguments ?? {}).length ? html`<code>${JSON.stringify(row.arguments)}</code>` : html`<span class="zero">–</span>`) },
    { key: "actions", title: "", isRight: true, cell: (row) => (isFixed || row.source === "" ? null : html`<button type="button" class="button plain small" onClick=${() => openUnbind(row)}>Remove</button>`) },
  ]} empty=${{ title: "No bindings", text: "Add one, so that messages reach a queue.", icon: "exchange" }} />`;
}
