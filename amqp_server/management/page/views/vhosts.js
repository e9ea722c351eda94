// Virtual hosts: separate worlds of queues and exchanges.

import { html } from "../app/html.js";
import { address, apiPath } from "../app/addresses.js";
import { commandLine } from "../app/command_lines.js";
import { plural, rate, shortCount } from "../app/format.js";
import { usePolled } from "../app/polling.js";
import { statRate } from "../app/queue_numbers.js";
import { ask } from "../app/server.js";
import { mayAs, useSession } from "../app/session.js";
import { ActionDialog, openDialog } from "../parts/dialog.js";
import { Select, TextField } from "../parts/fields.js";
import { Icon } from "../parts/icon.js";
import { ListView } from "../parts/list_view.js";
import { Badge, Notice } from "../parts/notices.js";

const FIELDS = { name: (row) => row.name, messages: (row) => row.messages ?? 0, tags: (row) => (row.tags ?? []).join?.(" ") ?? "", tracing: (row) => (row.tracing ? "on" : "off") };

export default function Vhosts({ query }) {
  const session = useSession();
  const vhosts = usePolled("vhosts");
  const isAdministrator = mayAs(session);
  return html`<${ListView} title="Virtual hosts" noun="virtual host" answer=${vhosts} query=${query} fields=${FIELDS} words=${(row) => [row.name, row.description ?? ""]} placeholder="Name, or messages>0"
    actions=${isAdministrator && html`<button type="button" class="button primary" onClick=${openCreate}><${Icon} name="plus" small />New virtual host</button>`}
    rowKey=${(row) => row.name}
    columns=${[
      { key: "name", title: "Name", isMain: true, value: (row) => row.name, cell: (row) => html`<a class="name" href=${address("queues", [], { vhost: row.name })}>${row.name}</a>` },
      { key: "description", width: 180, title: "Description", option: 3, text: (row) => row.description, cell: (row) => row.description || html`<span class="zero">–</span>` },
      { key: "tags", width: 120, title: "Tags", option: 2, cell: (row) => html`<span class="row tight">${[row.tags ?? []].flat().map((tag) => html`<${Badge} key=${tag}>${tag}<//>`)}</span>` },
      { key: "messages", width: 104, title: "Messages", isRight: true, option: 1, value: (row) => row.messages ?? 0, cell: (row) => shortCount(row.messages ?? 0) },
      { key: "unacked", width: 96, title: "Unacked", isRight: true, option: 1, value: (row) => row.messages_unacknowledged ?? 0, cell: (row) => shortCount(row.messages_unacknowledged ?? 0) },
      { key: "in", width: 88, title: "In", isRight: true, option: 1, value: (row) => statRate(row, "publish"), cell: (row) => rate(statRate(row, "publish")) },
      { key: "out", width: 88, title: "Out", isRight: true, option: 1, value: (row) => statRate(row, "deliver_get"), cell: (row) => rate(statRate(row, "deliver_get")) },
      { key: "tracing", width: 84, title: "Tracing", option: 2, value: (row) => (row.tracing ? 1 : 0), cell: (row) => (row.tracing ? html`<${Badge} level="warn" title="Every message is copied to amq.rabbitmq.trace">on<//>` : html`<span class="zero">off</span>`) },
      { key: "actions", width: 240, title: "", isRight: true, cell: (row) => (isAdministrator ? html`<button type="button" class="button plain small" onClick=${() => openTracing(row)}>${row.tracing ? "End tracing" : "Trace"}</button>
        <button type="button" class="button plain small" onClick=${() => openLimit(row)}>Limits</button>
        <button type="button" class="button plain small" onClick=${() => openDelete(row)}>Delete</button>` : null) },
    ]}
    empty=${{ title: "No virtual hosts", icon: "vhost" }} />`;
}

function openCreate() {
  openDialog((close) => html`<${ActionDialog} onClose=${close} title="New virtual host" confirm="Create virtual host" initial=${{ name: "", description: "", tags: "", type: "" }}
    fields=${(values, set) => html`<div class="fields">
      <${TextField} label="Name" isMono value=${values.name} onInput=${set("name")} data-autofocus />
      <${TextField} label="Description" value=${values.description} onInput=${set("description")} />
      <${TextField} label="Tags" value=${values.tags} onInput=${set("tags")} help="Separated by commas" />
      <${Select} label="Default type of queues" options=${[["", "classic"], ["quorum", "quorum"], ["stream", "stream"]]} value=${values.type} onInput=${set("type")} /></div>`}
    request=${(values) => values.name === "" ? null : ({ method: "PUT", path: apiPath("vhosts", values.name), body: { description: values.description, tags: values.tags, ...(values.type ? { default_queue_type: values.type } : {}) } })}
    command=${(values) => commandLine("amqp-server", "vhosts", "add", values.name || "NAME")}
    done=${(_, values) => `The virtual host “${values.name}” is there. You have all permissions in it.`} />`);
}

function openDelete(vhost) {
  openDialog((close) => html`<${ActionDialog} onClose=${close} isDestructive title=${`Delete the virtual host “${vhost.name}”`} confirm="Delete the virtual host" initial=${{ typed: "" }}
    fields=${(values, set) => html`<${Notice} level="bad">All its queues go with <strong>${plural(vhost.messages ?? 0, "message")}</strong>, with exchanges, bindings, policies and permissions. Its connections are closed. This cannot be undone.<//>
      <${TextField} label="Type the name to confirm" isMono value=${values.typed} onInput=${set("typed")} />`}
    request=${(values) => values.typed !== vhost.name ? null : ({ method: "DELETE", path: apiPath("vhosts", vhost.name) })}
    command=${() => commandLine("amqp-server", "vhosts", "delete", vhost.name)}
    done=${`Deleted “${vhost.name}”.`} />`);
}

/** The firehose: a copy of every message that is published or delivered in the virtual host. */
function openTracing(vhost) {
  const isOn = Boolean(vhost.tracing);
  openDialog((close) => html`<${ActionDialog} onClose=${close} isCaution=${!isOn} title=${isOn ? `End the tracing of “${vhost.name}”` : `Trace “${vhost.name}”`} confirm=${isOn ? "End tracing" : "Begin tracing"}
    fields=${() => html`<p>${isOn ? "No more copies are made. Queues that are bound to the exchange keep what they have."
      : html`The broker publishes a copy of every message that is published or delivered in this virtual host to the exchange <code>amq.rabbitmq.trace</code>: with the routing keys <code>publish.EXCHANGE</code> and <code>deliver.QUEUE</code>. Bind a queue to it to see them. It costs time with every message.`}</p>`}
    request=${() => ({ method: "PUT", path: apiPath("vhosts", vhost.name), body: {
      description: vhost.description ?? "", tags: [vhost.tags ?? []].flat().join(","), ...(vhost.default_queue_type && vhost.default_queue_type !== "undefined" ? { default_queue_type: vhost.default_queue_type } : {}), tracing: !isOn } })}
    before=${async (_, wanted) => {
      await ask(wanted.path, wanted);
      const { tracing } = await ask(wanted.path);
      if (Boolean(tracing) === isOn) throw new Error("The server has not changed it: it does not trace.");
    }}
    command=${() => commandLine("rabbitmqctl", isOn ? "trace_off" : "trace_on", "-p", vhost.name)}
    done=${isOn ? "Tracing has ended." : "Tracing has begun: bind a queue to amq.rabbitmq.trace."} />`);
}

function openLimit(vhost) {
  openDialog((close) => html`<${ActionDialog} onClose=${close} title=${`Limit of “${vhost.name}”`} confirm="Save" initial=${{ name: "max-connections", value: "" }}
    fields=${(values, set) => html`<div class="fields">
      <${Select} label="What" options=${[["max-connections", "Connections"], ["max-queues", "Queues"]]} value=${values.name} onInput=${set("name")} />
      <${TextField} label="At most" type="number" value=${values.value} onInput=${set("value")} help="-1: no limit. 0: none at all" /></div>`}
    request=${(values) => values.value === "" ? null : ({ method: "PUT", path: apiPath("vhost-limits", vhost.name, values.name), body: { value: Number(values.value) } })}
    command=${(values) => commandLine("amqp-server", "limits", "set", "--vhost", vhost.name, `${values.name}=${values.value || "N"}`)}
    done="The limit is set. What exists stays." />`);
}
