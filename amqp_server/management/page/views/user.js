// One user: permissions by virtual host, topics, limits.

import { html } from "../app/html.js";
import { apiPath } from "../app/addresses.js";
import { useVhost } from "../app/chosen_vhost.js";
import { commandLine } from "../app/command_lines.js";
import { count } from "../app/format.js";
import { usePolled } from "../app/polling.js";
import { firstVhost } from "../app/vhost_paths.js";
import { openClearPermission, openDeleteUser, openPermission, openTopicPermission, openUser } from "../actions/user_actions.js";
import { ActionDialog, openDialog } from "../parts/dialog.js";
import { Facts } from "../parts/facts.js";
import { Select, TextField } from "../parts/fields.js";
import { Icon } from "../parts/icon.js";
import { Badge, Failure } from "../parts/notices.js";
import { PageHead } from "../parts/page_head.js";
import { Table } from "../parts/table.js";
import { tagsOf } from "./users.js";

export default function User({ names: [name] }) {
  const answer = usePolled(apiPath("users", name));
  const permissions = usePolled(apiPath("users", name, "permissions"));
  const topics = usePolled(apiPath("users", name, "topic-permissions"));
  const { vhost, names } = useVhost();
  const hosts = names ?? [];
  const crumbs = [{ text: "Users", href: "#/users" }];
  const user = answer.value && { ...answer.value, tags: tagsOf(answer.value) };
  if (!user) {
    return html`<${PageHead} title=${name} crumbs=${crumbs} /><${Failure} error=${answer.error} what="The user" />
      ${answer.isLoading && html`<div class="skeleton" style=${{ height: "120px" }} role="status" aria-label="Loading"></div>`}`;
  }
  return html`
    <${PageHead} title=${name} crumbs=${crumbs} badges=${user.tags.map((tag) => html`<${Badge} key=${tag} level=${tag === "administrator" ? "info" : ""}>${tag}<//>`)}
      actions=${html`<button type="button" class="button" onClick=${() => openUser(user)}><${Icon} name="key" small />Password and tags</button>
        <button type="button" class="button danger" onClick=${() => openDeleteUser(user)}><${Icon} name="trash" small />Delete</button>`} />
    <section class="panel flush" aria-label="Permissions"><div class="panel-head"><h2>Permissions</h2>
        <button type="button" class="button small" disabled=${!names} onClick=${() => openPermission(name, hosts, firstVhost(vhost, hosts))}><${Icon} name="plus" small />Add</button></div>
      <${Table} label="Permissions" rows=${permissions.value ?? []} isLoading=${permissions.isLoading} rowKey=${(row) => row.vhost} columns=${[
        { key: "vhost", title: "Virtual host", isMain: true, value: (row) => row.vhost, cell: (row) => html`<span class="name">${row.vhost}</span>` },
        { key: "configure", title: "Configure", cell: (row) => html`<code>${row.configure || "(nothing)"}</code>` },
        { key: "write", title: "Write", cell: (row) => html`<code>${row.write || "(nothing)"}</code>` },
        { key: "read", title: "Read", cell: (row) => html`<code>${row.read || "(nothing)"}</code>` },
        { key: "actions", title: "", isRight: true, cell: (row) => html`<button type="button" class="button plain small" disabled=${!names} onClick=${() => openPermission(name, hosts, row.vhost, row)}>Change</button>
          <button type="button" class="button plain small" onClick=${() => openClearPermission(name, row.vhost)}>Remove</button>` },
      ]} empty=${{ title: "No access to any virtual host", text: "Add permissions, so that the user can connect.", icon: "key" }} /></section>
    <div class="grid-2">
      <section class="panel flush" aria-label="Topic permissions"><div class="panel-head"><h2>Topic permissions</h2>
          <button type="button" class="button small" disabled=${!names} onClick=${() => openTopicPermission(name, hosts, firstVhost(vhost, hosts))}><${Icon} name="plus" small />Add</button></div>
        <${Table} label="Topic permissions" rows=${topics.value ?? []} isLoading=${topics.isLoading} rowKey=${(row) => `${row.vhost}\n${row.exchange}`} columns=${[
          { key: "exchange", title: "Exchange", isMain: true, value: (row) => row.exchange, cell: (row) => html`<span class="name">${row.exchange}</span> <span class="quiet">${row.vhost}</span>` },
          { key: "write", title: "Write", cell: (row) => html`<code>${row.write}</code>` },
          { key: "read", title: "Read", cell: (row) => html`<code>${row.read}</code>` },
        ]} empty=${{ title: "None", text: "Every routing key is allowed on topic exchanges that the user may write.", icon: "exchange" }} /></section>
      <section class="panel" aria-label="Limits"><div class="panel-head"><h2>Limits</h2><button type="button" class="button small" onClick=${() => openLimit(name, user.limits ?? {})}>Change</button></div>
        <${Facts} rows=${[
          ["Connections", limit(user.limits?.["max-connections"])], ["Channels", limit(user.limits?.["max-channels"])],
          ["Password", user.password_hash ? user.hashing_algorithm?.replace("rabbit_password_hashing_", "") ?? "set" : "none"],
        ]} /></section>
    </div>`;
}

const limit = (value) => (value === undefined || value < 0 ? "no limit" : count(value));

function openLimit(user, limits) {
  openDialog((close) => html`<${ActionDialog} onClose=${close} title=${`Limit of “${user}”`} confirm="Save" initial=${{ name: "max-connections", value: String(limits["max-connections"] ?? "") }}
    fields=${(values, set) => html`<div class="fields">
      <${Select} label="What" options=${[["max-connections", "Connections"], ["max-channels", "Channels"]]} value=${values.name} onInput=${set("name")} />
      <${TextField} label="At most" type="number" value=${values.value} onInput=${set("value")} help="-1: no limit. 0: none at all" /></div>`}
    request=${(values) => values.value === "" ? null : ({ method: "PUT", path: apiPath("user-limits", user, values.name), body: { value: Number(values.value) } })}
    command=${(values) => commandLine("amqp-server", "limits", "set", "--user", user, `${values.name}=${values.value || "N"}`)}
    done="The limit is set. Open connections stay." />`);
}
