// What a delayed exchange keeps: how many messages, which leave next, and the buttons that cancel them.

import { html } from "../app/html.js";
import { apiPath, apiQuery } from "../app/addresses.js";
import { bytes, clock, count, duration, inWords, moment, plural } from "../app/format.js";
import { bodyPreview, headerText } from "../app/message_bodies.js";
import { usePolled } from "../app/polling.js";
import { openCancelDelayed } from "../actions/transfer_actions.js";
import { CommandLines } from "./copying.js";
import { Icon } from "./icon.js";
import { Failure } from "./notices.js";
import { Table } from "./table.js";

const SHOWN = 100;

export function DelayedMessages({ exchange }) {
  const path = apiQuery(apiPath("exchanges", exchange.vhost, exchange.name, "delayed"), { limit: SHOWN });
  const answer = usePolled(path);
  const page = answer.value;
  const items = page?.items ?? [];
  return html`<section class="panel flush" aria-label="Delayed messages">
    <div class="panel-head"><h2>Delayed messages</h2>
      <span class="soft small" role="status">${page ? summary(page) : ""}</span>
      ${page?.messages > 0 && html`<button type="button" class="button small danger" onClick=${() => openCancelDelayed(exchange, null, page.messages)}><${Icon} name="trash" small />Cancel all</button>`}</div>
    ${answer.error && html`<div class="panel-facts"><${Failure} error=${answer.error} what="The list of delayed messages" /></div>`}
    ${!answer.error && html`<${Table} label="Delayed messages" rows=${items} isLoading=${answer.isLoading} rowKey=${(row) => String(row.offset)} columns=${[
      { key: "at", title: "Leaves", cell: (row) => html`<span class="num" title=${moment(row.delivered_at_ms)}>${whenOf(row, page.now_ms)}</span>` },
      { key: "key", title: "Routing key", isBrief: true, cell: (row) => html`<code>${row.routing_key || html`<span class="quiet">(empty)</span>`}</code>` },
      { key: "delay", title: "Delay", option: 1, isRight: true, cell: (row) => delayOf(row) },
      { key: "bytes", title: "Size", option: 1, isRight: true, cell: (row) => bytes(row.body_bytes) },
      { key: "body", title: "Body", option: 1, cell: (row) => html`<code>${bodyPreview(row)}</code>` },
      { key: "offset", title: "Offset", option: 2, isRight: true, cell: (row) => html`<span class="soft">${count(row.offset)}</span>` },
      { key: "actions", title: "", isRight: true, cell: (row) => html`<button type="button" class="button plain small" aria-label=${`Cancel message ${row.offset}`} onClick=${() => openCancelDelayed(exchange, row)}>Cancel</button>` },
    ]} empty=${{ title: "Nothing is delayed", text: "A message with the header x-delay waits here for that many milliseconds.", icon: "replay" }} />`}
    ${page?.messages > items.length && html`<p class="panel-note quiet">These ${count(items.length)} leave next, of ${count(page.messages)}.</p>`}
    ${items.length > 0 && html`<div class="panel-facts"><${CommandLines} request=${{ method: "GET", path }} command=${null} /></div>`}
  </section>`;
}

function summary({ messages, next_at_ms: next, now_ms: now, leaving }) {
  if (messages === 0 && leaving === 0) return "none waits";
  const parts = [plural(messages, "message")];
  if (next) parts.push(next > now ? `the next leaves in ${inWords((next - now) / 1000)}` : "the next leaves now");
  if (leaving) parts.push(`${count(leaving)} on their way`);
  return parts.join(", ");
}

function whenOf(row, now) {
  const seconds = (row.delivered_at_ms - now) / 1000;
  const isFar = seconds > 43_200;
  return `${isFar ? moment(row.delivered_at_ms) : clock(row.delivered_at_ms)}${seconds > 0 && !isFar ? `, in ${duration(seconds)}` : ""}`;
}

function delayOf(row) {
  const value = row.properties?.headers?.["x-delay"];
  const millis = Number(headerText(value));
  return Number.isFinite(millis) ? duration(millis / 1000) : "–";
}
