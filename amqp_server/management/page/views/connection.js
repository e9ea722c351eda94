// One connection: who it is, what it sends, and its channels.

import { html } from "../app/html.js";
import { apiPath, apiQuery } from "../app/addresses.js";
import { ago, bytes, count, duration, moment } from "../app/format.js";
import { usePolled } from "../app/polling.js";
import { rangeParameters, rateLine } from "../app/samples.js";
import { connectionTitle, openClose } from "../actions/connection_actions.js";
import { Chart } from "../parts/chart.js";
import { Entries, Facts } from "../parts/facts.js";
import { Icon } from "../parts/icon.js";
import { Failure, Notice } from "../parts/notices.js";
import { PageHead } from "../parts/page_head.js";
import { Table } from "../parts/table.js";
import { CHANNEL_COLUMNS } from "./channels.js";
import { clientName, State } from "./connections.js";

export default function Connection({ names: [name] }) {
  const path = apiPath("connections", name);
  const answer = usePolled(apiQuery(path, rangeParameters("10m", ["data_rates"])));
  const channels = usePolled(`${path}/channels`);
  const crumbs = [{ text: "Connections", href: "#/connections" }];
  const connection = answer.value;
  if (!connection) {
    return html`<${PageHead} title=${name} crumbs=${crumbs} /><${Failure} error=${answer.error} what="The connection" />
      ${answer.isLoading && html`<div class="skeleton" style=${{ height: "150px" }} role="status" aria-label="Loading"></div>`}`;
  }
  return html`
    <${PageHead} title=${connectionTitle(connection)} crumbs=${crumbs} badges=${html`<${State} state=${connection.state} />`}
      lead=${`${connection.name} · connected ${ago(connection.connected_at)}`}
      actions=${html`<button type="button" class="button danger" onClick=${() => openClose(connection)}><${Icon} name="close" small />Close</button>`} />
    <${Failure} error=${answer.error} what="The connection" />
    ${(connection.state === "blocked" || connection.state === "blocking") && html`<${Notice} level="bad">This connection publishes while an alarm is on: the broker does not read from it until there is room. Its consumers keep working.<//>`}
    <div class="grid-2">
      <section class="panel" aria-label="About"><h2>About</h2><${Facts} rows=${[
        ["User", connection.user], ["Virtual host", connection.vhost], ["Client", clientName(connection)],
        ["Platform", connection.client_properties?.platform], ["Protocol", connection.protocol],
        ["Login", connection.auth_mechanism], ["Since", moment(connection.connected_at)],
        ["TLS", connection.ssl ? `${connection.ssl_protocol ?? "yes"} ${connection.ssl_cipher ?? ""}` : "no"],
        ["Certificate", connection.peer_cert_subject], ["Valid", connection.peer_cert_validity],
        ["Heartbeat", connection.timeout ? `every ${duration(connection.timeout / 2)}, closed after ${duration(connection.timeout)}` : "none"],
        ["Largest frame", bytes(connection.frame_max)], ["Channels", `${count(connection.channels)} of ${count(connection.channel_max)}`],
        ["Not sent yet", connection.send_pend ? count(connection.send_pend) : null],
      ]} /></section>
      <${Chart} title="Bytes per second" format=${(value) => `${bytes(value)}/s`} series=${[
        { label: "From the client", color: 1, points: rateLine(connection.recv_oct_details) },
        { label: "To the client", color: 2, points: rateLine(connection.send_oct_details) },
      ]} />
    </div>
    <section class="panel flush" aria-label="Channels"><div class="panel-head"><h2>Channels</h2></div>
      <${Table} label="Channels of the connection" rows=${channels.value ?? []} isLoading=${channels.isLoading} rowKey=${(row) => row.name} columns=${CHANNEL_COLUMNS} empty=${{ title: "No channels", icon: "channel" }} /></section>
    <section class="panel" aria-label="Client properties"><h2>What the client says of itself</h2><${Entries} entries=${connection.client_properties} /></section>`;
}
