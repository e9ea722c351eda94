// All exchanges.

import { html } from "../app/html.js";
import { address } from "../app/addresses.js";
import { useVhost } from "../app/chosen_vhost.js";
import { exchangeName, rate } from "../app/format.js";
import { usePolled } from "../app/polling.js";
import { statRate } from "../app/queue_numbers.js";
import { firstVhost, listPath } from "../app/vhost_paths.js";
import { openDeclareExchange } from "../actions/exchange_actions.js";
import { Icon } from "../parts/icon.js";
import { ListView } from "../parts/list_view.js";
import { Badge } from "../parts/notices.js";

const FIELDS = {
  name: (row) => row.name, vhost: (row) => row.vhost, type: (row) => row.type, policy: (row) => row.policy ?? "",
  in: (row) => statRate(row, "publish_in"), out: (row) => statRate(row, "publish_out"),
};

export default function Exchanges({ query }) {
  const { vhost, names: hosts } = useVhost();
  const exchanges = usePolled(listPath("exchanges", vhost));
  const overview = usePolled("overview?columns=exchange_types", 0);
  const types = (overview.value?.exchange_types ?? [{ name: "topic" }, { name: "direct" }, { name: "fanout" }, { name: "headers" }]).map(({ name }) => name);
  return html`<${ListView} title="Exchanges" noun="exchange" answer=${exchanges} query=${query} fields=${FIELDS} words=${(row) => [exchangeName(row.name), row.vhost]}
    placeholder="Name, or type:topic in>0"
    actions=${html`<button type="button" class="button primary" disabled=${!hosts} onClick=${() => openDeclareExchange(hosts, firstVhost(vhost, hosts), types)}><${Icon} name="plus" small />New exchange</button>`}
    rowKey=${(row) => `${row.vhost}\n${row.name}`}
    columns=${[
      { key: "name", title: "Name", isMain: true, value: (row) => row.name, cell: (row) => html`<a class="name" href=${address("exchanges", [row.vhost, row.name || "amq.default"])}>${exchangeName(row.name)}</a>` },
      { key: "vhost", width: 130, title: "Virtual host", option: 1, value: (row) => row.vhost, cell: (row) => html`<span class="soft">${row.vhost}</span>` },
      { key: "type", width: 176, title: "Type", value: (row) => row.type, cell: (row) => html`<${Badge}>${row.type}<//>` },
      { key: "marks", width: 190, title: "", option: 2, cell: (row) => html`<span class="row tight">${row.internal && html`<${Badge}>internal<//>`}${!row.durable && html`<${Badge}>transient<//>`}${row.auto_delete && html`<${Badge}>auto-delete<//>`}</span>` },
      { key: "policy", width: 150, title: "Policy", option: 2, value: (row) => row.policy ?? "", cell: (row) => row.policy ?? html`<span class="zero">–</span>` },
      { key: "in", width: 96, title: "In", isRight: true, value: (row) => statRate(row, "publish_in"), cell: (row) => rate(statRate(row, "publish_in")) },
      { key: "out", width: 96, title: "Out", isRight: true, option: 1, value: (row) => statRate(row, "publish_out"), cell: (row) => rate(statRate(row, "publish_out")) },
    ]}
    empty=${{ title: "No exchanges", icon: "exchange" }} />`;
}
