// Which exchanges send to a queue.

import { html } from "../app/html.js";
import { address, apiPath } from "../app/addresses.js";
import { exchangeName } from "../app/format.js";
import { usePolled } from "../app/polling.js";
import { openBind, openUnbind } from "../actions/queue_actions.js";
import { Icon } from "../parts/icon.js";
import { Failure } from "../parts/notices.js";
import { Table } from "../parts/table.js";

export function QueueBindings({ queue }) {
  const bindings = usePolled(apiPath("queues", queue.vhost, queue.name, "bindings"));
  const exchanges = usePolled("exchanges?columns=name,vhost,type", 0);
  const names = (exchanges.value ?? []).filter(({ name, vhost }) => name !== "" && vhost === queue.vhost).map(({ name }) => name);
  return html`
    <div class="toolbar"><p class="soft grow">Messages come from these exchanges, when their routing key matches.</p>
      <button type="button" class="button" disabled=${!exchanges.value} onClick=${() => openBind({ vhost: queue.vhost, destination: queue.name, sources: names })}><${Icon} name="plus" small />Bind to an exchange</button></div>
    <${Failure} error=${bindings.error} what="The list of bindings" />
    <${Table} label="Bindings" rows=${bindings.value ?? []} isLoading=${bindings.isLoading} rowKey=${(row) => `${row.source}\n${row.properties_key}`}
      columns=${[
        { key: "source", title: "Exchange", isMain: true, cell: (row) => html`<a class="name" href=${address("exchanges", [queue.vhost, row.source || "amq.default"])}>${exchangeName(row.source)}</a>` },
        { key: "key", title: "Routing key", cell: (row) => html`<code>${row.routing_key || html`<span class="quiet">(empty)</span>`}</code>` },
        { key: "arguments", title: "Arguments", option: 1, cell: (row) => (Object.keys(row.arguments ?? {}).length ? html`<code>${JSON.stringify(row.arguments)}</code>` : html`<span class="zero">–</span>`) },
        { key: "actions", title: "", isRight: true, cell: (row) => (row.source === "" ? html`<span class="quiet small">always there</span>`
          : html`<button type="button" class="button plain small" onClick=${() => openUnbind(row)}>Remove</button>`) },
      ]}
      empty=${{ title: "No bindings", text: "Only publishes to the default exchange with the queue's name reach it.", icon: "exchange" }} />`;
}
