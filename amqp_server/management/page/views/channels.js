// All channels: what they publish, get and hold.

import { html } from "../app/html.js";
import { address } from "../app/addresses.js";
import { useVhost } from "../app/chosen_vhost.js";
import { count, rate } from "../app/format.js";
import { usePolled } from "../app/polling.js";
import { statRate } from "../app/queue_numbers.js";
import { listPath } from "../app/vhost_paths.js";
import { ListView } from "../parts/list_view.js";
import { Badge } from "../parts/notices.js";
import { State } from "./connections.js";

const FIELDS = {
  name: (row) => row.name, user: (row) => row.user, vhost: (row) => row.vhost, state: (row) => row.state, mode: (row) => mode(row),
  unacked: (row) => row.messages_unacknowledged ?? 0, unconfirmed: (row) => row.messages_unconfirmed ?? 0, prefetch: (row) => row.prefetch_count ?? 0,
  consumers: (row) => row.consumer_count ?? 0, publish: (row) => statRate(row, "publish"),
};

export const CHANNEL_COLUMNS = [
  { key: "name", title: "Channel", isMain: true, value: (row) => row.name, cell: (row) => html`<a class="name" href=${address("channels", [row.name])}>${row.name}</a>` },
  { key: "user", width: 100, title: "User", option: 2, value: (row) => row.user, cell: (row) => row.user },
  { key: "vhost", width: 120, title: "Virtual host", option: 3, value: (row) => row.vhost, cell: (row) => html`<span class="soft">${row.vhost}</span>` },
  { key: "mode", width: 84, title: "Mode", option: 2, value: (row) => mode(row), cell: (row) => (mode(row) ? html`<${Badge}>${mode(row)}<//>` : html`<span class="zero">–</span>`) },
  { key: "state", width: 96, title: "State", option: 1, value: (row) => row.state, cell: (row) => html`<${State} state=${row.idle_since ? "idle" : row.state} />` },
  { key: "publish", width: 88, title: "Publish", isRight: true, value: (row) => statRate(row, "publish"), cell: (row) => rate(statRate(row, "publish")) },
  { key: "deliver", width: 88, title: "Deliver", isRight: true, option: 1, value: (row) => statRate(row, "deliver_get"), cell: (row) => rate(statRate(row, "deliver_get")) },
  { key: "ack", width: 76, title: "Ack", isRight: true, option: 1, value: (row) => statRate(row, "ack"), cell: (row) => rate(statRate(row, "ack")) },
  { key: "unacked", width: 92, title: "Unacked", isRight: true, value: (row) => row.messages_unacknowledged ?? 0, cell: (row) => count(row.messages_unacknowledged ?? 0) },
  { key: "unconfirmed", width: 122, title: "Unconfirmed", isRight: true, option: 3, value: (row) => row.messages_unconfirmed ?? 0, cell: (row) => count(row.messages_unconfirmed ?? 0) },
  { key: "prefetch", width: 94, title: "Prefetch", isRight: true, option: 2, value: (row) => row.prefetch_count ?? 0, cell: (row) => (row.prefetch_count ? count(row.prefetch_count) : row.global_prefetch_count ? `${count(row.global_prefetch_count)} shared` : html`<span class="zero">–</span>`) },
  { key: "consumers", width: 110, title: "Consumers", isRight: true, option: 3, value: (row) => row.consumer_count ?? 0, cell: (row) => count(row.consumer_count ?? 0) },
];

export default function Channels({ query }) {
  const { vhost } = useVhost();
  const channels = usePolled(listPath("channels", vhost));
  return html`<${ListView} title="Channels" noun="channel" answer=${channels} query=${query} fields=${FIELDS} words=${(row) => [row.name, row.user ?? "", row.vhost ?? ""]}
    placeholder="Name, or unacked>100 user:shop" rowKey=${(row) => row.name} columns=${CHANNEL_COLUMNS}
    empty=${{ title: "No channels", text: "A client opens one to publish or to consume.", icon: "channel" }} />`;
}

function mode(row) {
  if (row.transactional) return "transactions";
  return row.confirm ? "confirms" : "";
}
