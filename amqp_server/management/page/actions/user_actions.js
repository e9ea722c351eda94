// What an administrator does to users and their permissions.

import { html } from "../app/html.js";
import { apiPath } from "../app/addresses.js";
import { commandLine } from "../app/command_lines.js";
import { go } from "../app/location.js";
import { ActionDialog, openDialog } from "../parts/dialog.js";
import { Check, Select, TextField } from "../parts/fields.js";
import { Notice } from "../parts/notices.js";

export const TAGS = [
  ["administrator", "everything"],
  ["monitoring", "reads everything: node, connections, channels"],
  ["policymaker", "policies and parameters of its virtual hosts"],
  ["management", "this page, for its own virtual hosts"],
];

/** Make a user, or change tags and password of one. */
export function openUser(user = null) {
  const known = TAGS.map(([tag]) => tag);
  const others = (user?.tags ?? []).filter((tag) => !known.includes(tag));
  openDialog((close) => html`<${ActionDialog} onClose=${close} title=${user ? `Change “${user.name}”` : "New user"} confirm=${user ? "Save" : "Create user"}
    initial=${{ name: user?.name ?? "", password: "", change: user ? "keep" : "set", tags: user?.tags ?? [] }}
    fields=${(values, set) => html`
      ${!user && html`<${TextField} label="Name" isMono value=${values.name} onInput=${set("name")} data-autofocus />`}
      ${user && html`<${Select} label="Password" value=${values.change} onInput=${set("change")} options=${[["keep", "Keep the password"], ["set", "Set a new one"], ["none", "None: the user cannot log in by password"]]} />`}
      ${values.change === "set" && html`<${TextField} label=${user ? "New password" : "Password"} type="password" autocomplete="new-password" value=${values.password} onInput=${set("password")} />`}
      <fieldset class="stack tight"><legend class="label">Tags: what the user may do here</legend>
        ${TAGS.map(([tag, meaning]) => html`<${Check} key=${tag} label=${tag} help=${meaning} checked=${values.tags.includes(tag)}
          onChange=${(event) => set("tags")(event.target.checked ? [...values.tags, tag] : values.tags.filter((one) => one !== tag))} />`)}
      </fieldset>
      ${others.length > 0 && html`<p class="quiet">Further tags: ${others.join(", ")}</p>`}
      ${!user && html`<${Notice}>A new user may do nothing with queues until it gets permissions in a virtual host.<//>`}`}
    request=${(values) => {
      if (values.name === "" || (values.change === "set" && values.password === "")) return null;
      const secret = values.change === "set" ? { password: values.password }
        : values.change === "none" ? { password_hash: "" }
          : { password_hash: user.password_hash ?? "", hashing_algorithm: user.hashing_algorithm };
      return { method: "PUT", path: apiPath("users", values.name), body: { ...secret, tags: values.tags.join(",") } };
    }}
    shownRequest=${(wanted) => ({ ...wanted, body: { ...wanted.body, ...(wanted.body.password === undefined ? {} : { password: "…" }), ...(wanted.body.password_hash ? { password_hash: "…" } : {}) } })}
    command=${(values) => userCommand(user, values)}
    done=${(_, values) => (user ? `Changed “${values.name}”.` : `The user “${values.name}” is there.`)}
    onDone=${(_, values) => go("users", [values.name])} />`);
}

function userCommand(user, { name, tags, change }) {
  const joined = tags.join(",");
  if (!user) return commandLine("amqp-server", "users", "add", name || "NAME", ...(joined ? ["--tags", joined] : []));
  const lines = [commandLine("amqp-server", "users", "tags", name, ...tags)];
  if (change === "set") lines.push(commandLine("amqp-server", "users", "password", name));
  return lines.join("\n");
}

export function openDeleteUser(user) {
  openDialog((close) => html`<${ActionDialog} onClose=${close} isDestructive title=${`Delete the user “${user.name}”`} confirm="Delete the user" initial=${{ typed: "" }}
    fields=${(values, set) => html`<${Notice} level="bad">Its permissions go with it, and its connections are closed.<//>
      <${TextField} label="Type the name to confirm" isMono value=${values.typed} onInput=${set("typed")} />`}
    request=${(values) => values.typed !== user.name ? null : ({ method: "DELETE", path: apiPath("users", user.name) })}
    command=${() => commandLine("amqp-server", "users", "delete", user.name)}
    done=${`Deleted “${user.name}”.`} leaves onDone=${() => go("users")} />`);
}

/** Set a row of permissions; existing: {vhost, configure, write, read}. */
export function openPermission(user, vhosts, vhost, existing = null) {
  openDialog((close) => html`<${ActionDialog} onClose=${close} title=${`Permissions of “${user}”`} confirm="Save"
    initial=${existing ?? { vhost, configure: ".*", write: ".*", read: ".*" }}
    fields=${(values, set) => html`
      ${existing ? html`<p>In the virtual host <strong>${existing.vhost}</strong></p>` : html`<${Select} label="Virtual host" options=${vhosts} value=${values.vhost} onInput=${set("vhost")} />`}
      <div class="fields">
        <${TextField} label="Configure" isMono value=${values.configure} onInput=${set("configure")} help="Declare and delete" />
        <${TextField} label="Write" isMono value=${values.write} onInput=${set("write")} help="Publish, bind a queue" />
        <${TextField} label="Read" isMono value=${values.read} onInput=${set("read")} help="Consume, get, purge" />
      </div>
      <p class="quiet small">Regular expressions for names. <code>.*</code> is all, <code>^$</code> is nothing, <code>^orders\\.</code> is all that begins with “orders.”.</p>`}
    request=${(values) => ({ method: "PUT", path: apiPath("permissions", values.vhost, user), body: { configure: values.configure, write: values.write, read: values.read } })}
    command=${(values) => commandLine("amqp-server", "permissions", "set", user, "--vhost", values.vhost, "--configure", values.configure, "--write", values.write, "--read", values.read)}
    done="The permissions are set, and count at once." />`);
}

export function openClearPermission(user, vhost) {
  openDialog((close) => html`<${ActionDialog} onClose=${close} isDestructive title=${`Remove the permissions of “${user}” in “${vhost}”`} confirm="Remove permissions"
    fields=${() => html`<p>The user can no longer connect to this virtual host. Open connections stay, and may do nothing new.</p>`}
    request=${() => ({ method: "DELETE", path: apiPath("permissions", vhost, user) })}
    command=${() => commandLine("amqp-server", "permissions", "clear", user, "--vhost", vhost)}
    done="The permissions are gone." />`);
}

export function openTopicPermission(user, vhosts, vhost) {
  openDialog((close) => html`<${ActionDialog} onClose=${close} title=${`Topic permissions of “${user}”`} confirm="Save"
    initial=${{ vhost, exchange: "", write: ".*", read: ".*" }}
    fields=${(values, set) => html`<div class="fields">
      <${Select} label="Virtual host" options=${vhosts} value=${values.vhost} onInput=${set("vhost")} />
      <${TextField} label="Topic exchange" isMono value=${values.exchange} onInput=${set("exchange")} />
      <${TextField} label="Write: routing keys" isMono value=${values.write} onInput=${set("write")} />
      <${TextField} label="Read: binding keys" isMono value=${values.read} onInput=${set("read")} /></div>`}
    request=${(values) => values.exchange === "" ? null : ({ method: "PUT", path: apiPath("topic-permissions", values.vhost, user), body: { exchange: values.exchange, write: values.write, read: values.read } })}
    command=${(values) => commandLine("amqp-server", "topic-permissions", "set", user, values.exchange || "EXCHANGE", "--vhost", values.vhost, "--write", values.write, "--read", values.read)}
    done="The topic permissions are set." />`);
}
