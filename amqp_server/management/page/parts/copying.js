// Text that can be copied, and the command lines of an action.

import { html, useState } from "../app/html.js";
import { curlLine } from "../app/command_lines.js";
import { useSession } from "../app/session.js";
import { ORIGIN } from "../app/server.js";
import { Icon } from "./icon.js";
import { toast } from "./notices.js";

export async function copyText(text) {
  try {
    await navigator.clipboard.writeText(text);
    toast("Copied.");
  } catch {
    // Without HTTPS a browser has no clipboard for us, except on localhost.
    const area = document.createElement("textarea");
    area.value = text;
    document.body.append(area);
    area.select();
    const isDone = document.execCommand("copy");
    area.remove();
    toast(isDone ? "Copied." : "The browser does not allow copying here.", isDone ? "good" : "bad");
  }
}

export function CopyButton({ text, label = "Copy" }) {
  return html`<button type="button" class="button plain small" onClick=${() => copyText(text)}><${Icon} name="copy" small />${label}</button>`;
}

/**
 * The action of a dialog on a command line.
 *
 * Args:
 *   request: {method, path, body} of the API; null when there is none.
 *   command: The line for `amqp-server`, `rabbitmqctl` or `rabbitmqadmin`; null when there is none.
 */
export function CommandLines({ request, command }) {
  const session = useSession();
  // Every machine has curl; rabbitmqadmin comes with RabbitMQ and not with this server.
  const isAdmin = command?.startsWith("rabbitmqadmin ");
  const [chosen, setChosen] = useState(command && !(isAdmin && request) ? "command" : "curl");
  const kinds = [command && ["command", isAdmin ? "rabbitmqadmin" : "Command line"], request && ["curl", "curl"]].filter(Boolean);
  if (kinds.length === 0) return null;
  const kind = kinds.some(([key]) => key === chosen) ? chosen : kinds[0][0];
  const text = kind === "command" ? command : curlLine(request, ORIGIN, session.name);
  return html`<div class="command">
    <div class="command-head">
      <span class="grow">The same from a terminal</span>
      ${kinds.length > 1 && html`<span class="segmented">${kinds.map(([key, label]) => html`<button key=${key} type="button"
        aria-pressed=${String(key === kind)} onClick=${() => setChosen(key)}>${label}</button>`)}</span>`}
      <${CopyButton} text=${text} label=${kind === "curl" ? "Copy as curl" : "Copy"} />
    </div>
    <pre tabindex="0" aria-label="Command"><code>${text}</code></pre>
  </div>`;
}
