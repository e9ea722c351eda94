// Users: who may log in, and what each may do here.

import { html } from "../app/html.js";
import { address } from "../app/addresses.js";
import { plural } from "../app/format.js";
import { usePolled } from "../app/polling.js";
import { openUser } from "../actions/user_actions.js";
import { Icon } from "../parts/icon.js";
import { ListView } from "../parts/list_view.js";
import { Badge } from "../parts/notices.js";

const FIELDS = { name: (row) => row.name, tags: (row) => tagsOf(row).join(" ") };

export default function Users({ query }) {
  const users = usePolled("users");
  const permissions = usePolled("permissions");
  const hostsOf = (user) => (permissions.value ?? []).filter((row) => row.user === user.name).map(({ vhost }) => vhost);
  return html`<${ListView} title="Users and permissions" noun="user" answer=${users} query=${query} fields=${FIELDS} words=${(row) => [row.name, ...tagsOf(row)]} placeholder="Name, or tags:administrator"
    actions=${html`<button type="button" class="button primary" onClick=${() => openUser()}><${Icon} name="plus" small />New user</button>`}
    rowKey=${(row) => row.name}
    columns=${[
      { key: "name", title: "Name", isMain: true, value: (row) => row.name, cell: (row) => html`<a class="name" href=${address("users", [row.name])}>${row.name}</a>` },
      { key: "tags", width: 200, title: "Tags", value: (row) => tagsOf(row).join(" "), cell: (row) => html`<span class="row tight">${tagsOf(row).map((tag) => html`<${Badge} key=${tag} level=${tag === "administrator" ? "info" : ""}>${tag}<//>`)}${tagsOf(row).length === 0 && html`<span class="zero">–</span>`}</span>` },
      { key: "vhosts", width: 180, title: "Virtual hosts", cell: (row) => hosts(hostsOf(row), permissions.value) },
      { key: "password", width: 96, title: "Password", option: 1, cell: (row) => (row.password_hash ? html`<span class="soft">set</span>` : html`<${Badge} level="warn">none<//>`) },
      { key: "limits", width: 180, title: "Limits", option: 2, cell: (row) => (Object.keys(row.limits ?? {}).length ? html`<code>${JSON.stringify(row.limits)}</code>` : html`<span class="zero">–</span>`) },
    ]}
    empty=${{ title: "No users", icon: "users" }} />`;
}

export function tagsOf(user) {
  return Array.isArray(user.tags) ? user.tags : String(user.tags ?? "").split(",").filter(Boolean);
}

function hosts(names, isKnown) {
  if (!isKnown) return "";
  if (names.length === 0) return html`<${Badge} level="warn">no access<//>`;
  return html`<span title=${names.join(", ")}>${names.length <= 3 ? names.join(", ") : plural(names.length, "virtual host")}</span>`;
}
