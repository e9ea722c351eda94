// Closing connections.

import { html } from "../app/html.js";
import { apiPath } from "../app/addresses.js";
import { adminLine } from "../app/command_lines.js";
import { go } from "../app/location.js";
import { ActionDialog, openDialog } from "../parts/dialog.js";
import { TextField } from "../parts/fields.js";

export function openClose(connection) {
  openDialog((close) => html`<${ActionDialog} onClose=${close} isCaution title="Close the connection" confirm="Close connection"
    initial=${{ reason: "Closed via management plugin" }}
    fields=${(values, set) => html`
      <p><strong>${connectionTitle(connection)}</strong> (${connection.user}) is closed with error 320. Messages that it holds unacknowledged go back to their queues. Most clients connect again by themselves.</p>
      <${TextField} label="Reason that the client gets" isFull value=${values.reason} onInput=${set("reason")} />`}
    request=${(values) => ({ method: "DELETE", path: apiPath("connections", connection.name), headers: { "X-Reason": values.reason } })}
    command=${() => adminLine(connection.vhost, "close connection", { name: connection.name })}
    done="The connection is closed." leaves onDone=${() => go("connections")} />`);
}

/** The name that the client gave itself, else its address. */
export function connectionTitle(connection) {
  return connection.user_provided_name || connection.client_properties?.connection_name || connection.name;
}
