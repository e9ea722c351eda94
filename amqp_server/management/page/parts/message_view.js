// One message: where it went, its properties, headers and body. All of it is text.

import { html, useMemo, useState } from "../app/html.js";
import { bytes, count, exchangeName, moment } from "../app/format.js";
import { headerText, readableBody } from "../app/message_bodies.js";
import { CopyButton } from "./copying.js";
import { Facts } from "./facts.js";
import { Badge } from "./notices.js";

/** "content_type" -> "Content type". */
const title = (name) => name[0].toUpperCase() + name.slice(1).replaceAll("_", " ");

const STATE_LEVELS = { ready: "info", unacked: "warn", settled: "" };

export function MessageView({ message }) {
  const body = useMemo(() => readableBody(message), [message]);
  const [isRaw, setRaw] = useState(false);
  const { headers = {}, ...properties } = message.properties ?? {};
  const size = message.body_bytes ?? message.payload_bytes;
  const isCut = message.is_body_cut ?? (message.payload_bytes > 50000);
  const shown = isRaw && body.kind === "json" ? (message.body ?? message.payload) : body.text;
  return html`<div class="stack">
    <${Facts} rows=${[
      ["Offset", message.offset === undefined ? null : count(message.offset)],
      ["Time", message.timestamp ? moment(message.timestamp, true) : null],
      ["State", message.state && html`<${Badge} level=${STATE_LEVELS[message.state]}>${message.state}<//>`],
      ["Redelivered", message.redelivered === undefined ? null : message.redelivered ? "yes" : "no"],
      ["Exchange", exchangeName(message.exchange ?? "")],
      ["Routing key", html`<code>${message.routing_key}</code>`],
      ...Object.entries(properties).filter(([name]) => name !== "headers").map(([name, value]) => [title(name), html`<code>${headerText(value)}</code>`]),
    ]} />
    ${Object.keys(headers).length > 0 && html`<div class="stack tight"><h3>Headers</h3>
      <dl class="facts">${Object.entries(headers).map(([name, value]) => html`<dt key=${name} class="mono">${name}</dt><dd key=${`${name} v`} class="mono">${headerText(value) || html`<span class="quiet">(empty)</span>`}</dd>`)}</dl></div>`}
    <div class="stack tight">
      <div class="row"><h3 class="grow">Body <span class="quiet small">${body.kind}, ${bytes(size)}${isCut ? ", shown in part" : ""}</span></h3>
        ${body.kind === "json" && html`<button type="button" class="button plain small" aria-pressed=${String(isRaw)} onClick=${() => setRaw(!isRaw)}>As sent</button>`}
        <${CopyButton} text=${message.body ?? message.payload ?? body.text} /></div>
      ${body.kind === "empty" ? html`<p class="quiet">The body is empty.</p>` : html`<pre class="body-view" tabindex="0" aria-label="Body"><code>${shown}</code></pre>`}
    </div>
  </div>`;
}
