// What an operator does to an exchange.

import { html } from "../app/html.js";
import { apiPath } from "../app/addresses.js";
import { adminLine } from "../app/command_lines.js";
import { go } from "../app/location.js";
import { ActionDialog, openDialog } from "../parts/dialog.js";
import { Check, jsonObject, Select, TextArea, TextField } from "../parts/fields.js";
import { Notice } from "../parts/notices.js";

export function openDeclareExchange(vhosts, vhost, types) {
  openDialog((close) => html`<${ActionDialog} onClose=${close} title="New exchange" confirm="Create exchange"
    initial=${{ vhost, name: "", type: "topic", durable: true, autoDelete: false, internal: false, alternate: "", arguments: "" }}
    fields=${(values, set) => html`<div class="fields">
        <${TextField} label="Name" isMono value=${values.name} onInput=${set("name")} data-autofocus />
        <${Select} label="Virtual host" options=${vhosts} value=${values.vhost} onInput=${set("vhost")} />
        <${Select} label="Type" options=${types} value=${values.type} onInput=${set("type")} />
        <${TextField} label="Alternate exchange" isMono value=${values.alternate} onInput=${set("alternate")} help="Gets what no queue is bound for" />
      </div>
      <div class="split">
        <${Check} label="Durable" checked=${values.durable} onChange=${set("durable")} />
        <${Check} label="Auto-delete" checked=${values.autoDelete} onChange=${set("autoDelete")} />
        <${Check} label="Internal: only exchanges publish to it" checked=${values.internal} onChange=${set("internal")} />
      </div>
      <${TextArea} label="Arguments (JSON)" value=${values.arguments} onInput=${set("arguments")} />`}
    request=${(values) => values.name === "" ? null : ({
      method: "PUT", path: apiPath("exchanges", values.vhost, values.name),
      body: { type: values.type, durable: values.durable, auto_delete: values.autoDelete, internal: values.internal,
        arguments: { ...(values.alternate ? { "alternate-exchange": values.alternate } : {}), ...jsonObject(values.arguments, "Arguments") } },
    })}
    command=${(values) => adminLine(values.vhost, "declare exchange", { name: values.name || "NAME", type: values.type, durable: values.durable, auto_delete: values.autoDelete, internal: values.internal })}
    done=${(_, values) => `The exchange “${values.name}” is there.`} onDone=${(_, values) => go("exchanges", [values.vhost, values.name])} />`);
}

export function openDeleteExchange(exchange) {
  openDialog((close) => html`<${ActionDialog} onClose=${close} title=${`Delete the exchange “${exchange.name}”`} isDestructive confirm="Delete the exchange"
    initial=${{ ifUnused: true }}
    fields=${(values, set) => html`
      <${Notice} level="bad">Its bindings go with it, and publishes to it are errors from then on: the channel of the publisher is closed.<//>
      <${Check} label="Only if nothing is bound to it" checked=${values.ifUnused} onChange=${set("ifUnused")} />`}
    request=${(values) => ({ method: "DELETE", path: `${apiPath("exchanges", exchange.vhost, exchange.name)}${values.ifUnused ? "?if-unused=true" : ""}` })}
    command=${(values) => (values.ifUnused ? null : adminLine(exchange.vhost, "delete exchange", { name: exchange.name }))}
    done=${`Deleted “${exchange.name}”.`} leaves onDone=${() => go("exchanges")} />`);
}
