// Who is connected.

import { html } from "../app/html.js";
import { address } from "../app/addresses.js";
import { useVhost } from "../app/chosen_vhost.js";
import { ago, bytes, count } from "../app/format.js";
import { usePolled } from "../app/polling.js";
import { listPath } from "../app/vhost_paths.js";
import { connectionTitle } from "../actions/connection_actions.js";
import { ListView } from "../parts/list_view.js";
import { Badge } from "../parts/notices.js";

const STATE_LEVELS = { running: "good", flow: "info", blocking: "warn", blocked: "bad" };
const STATE_WORDS = {
  flow: "Slowed down: it publishes faster than the queues store",
  blocking: "An alarm is on; it will be blocked when it publishes",
  blocked: "Blocked by an alarm: its publishes wait",
};

const FIELDS = {
  name: (row) => connectionTitle(row), user: (row) => row.user, vhost: (row) => row.vhost, state: (row) => row.state,
  client: (row) => clientName(row), peer: (row) => row.peer_host, channels: (row) => row.channels ?? 0, tls: (row) => Boolean(row.ssl),
};

export default function Connections({ query }) {
  const { vhost } = useVhost();
  const connections = usePolled(listPath("connections", vhost));
  return html`<${ListView} title="Connections" noun="connection" answer=${connections} query=${query} fields=${FIELDS}
    words=${(row) => [connectionTitle(row), row.name, row.user ?? "", row.vhost ?? "", clientName(row)]} placeholder="Name, address, or state:blocked user:shop tls:false"
    rowKey=${(row) => row.name}
    columns=${[
      { key: "name", title: "Name", isMain: true, value: (row) => connectionTitle(row), cell: (row) => html`<a class="name" href=${address("connections", [row.name])} title=${row.name}>${connectionTitle(row)}</a>` },
      { key: "peer", width: 160, title: "From", option: 2, value: (row) => `${row.peer_host}:${row.peer_port}`, cell: (row) => html`<span class="num soft">${row.peer_host}:${row.peer_port}</span>` },
      { key: "user", width: 110, title: "User", option: 1, value: (row) => row.user, cell: (row) => row.user },
      { key: "vhost", width: 120, title: "Virtual host", option: 3, value: (row) => row.vhost, cell: (row) => html`<span class="soft">${row.vhost}</span>` },
      { key: "state", width: 96, title: "State", value: (row) => row.state, cell: (row) => html`<${State} state=${row.state} />` },
      { key: "client", width: 170, title: "Client", option: 3, isBrief: true, value: (row) => clientName(row), cell: (row) => html`<span class="soft">${clientName(row)}</span>` },
      { key: "tls", width: 84, title: "TLS", option: 2, value: (row) => (row.ssl ? 1 : 0), cell: (row) => (row.ssl ? html`<${Badge} level="good">${row.ssl_protocol ?? "TLS"}<//>` : html`<span class="zero">no</span>`) },
      { key: "channels", width: 98, title: "Channels", isRight: true, value: (row) => row.channels ?? 0, cell: (row) => count(row.channels ?? 0) },
      { key: "in", width: 96, title: "In", isRight: true, option: 1, value: (row) => row.recv_oct_details?.rate ?? 0, cell: (row) => `${bytes(row.recv_oct_details?.rate ?? 0)}/s` },
      { key: "out", width: 96, title: "Out", isRight: true, option: 1, value: (row) => row.send_oct_details?.rate ?? 0, cell: (row) => `${bytes(row.send_oct_details?.rate ?? 0)}/s` },
      { key: "since", width: 132, title: "Connected", isRight: true, option: 3, value: (row) => -row.connected_at, cell: (row) => html`<span class="soft">${ago(row.connected_at)}</span>` },
    ]}
    empty=${{ title: vhost === "" ? "Nobody is connected" : `Nobody is connected to “${vhost}”`, text: "Clients connect with amqp:// to the port that the overview names.", icon: "connection" }} />`;
}

export function State({ state }) {
  return html`<${Badge} level=${STATE_LEVELS[state] ?? ""} title=${STATE_WORDS[state]}>${state ?? "–"}<//>`;
}

export function clientName(row) {
  const { product = "", version = "" } = row.client_properties ?? {};
  return `${product} ${version}`.trim();
}
