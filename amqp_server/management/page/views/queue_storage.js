// What a queue keeps on the disk, for how long, and which groups read it.

import { html } from "../app/html.js";
import { apiPath, apiQuery } from "../app/addresses.js";
import { ago, bytes, count, duration, moment, plural } from "../app/format.js";
import { usePolled } from "../app/polling.js";
import { openReplay } from "../actions/transfer_actions.js";
import { Facts } from "../parts/facts.js";
import { Icon } from "../parts/icon.js";
import { Failure } from "../parts/notices.js";
import { GroupsTable } from "./streams.js";

export function QueueStorage({ queue, queues }) {
  const isStream = queue.type === "stream";
  const groups = usePolled(isStream ? apiPath("queues", queue.vhost, queue.name, "groups") : null);
  const first = usePolled(isStream ? null : apiQuery(apiPath("queues", queue.vhost, queue.name, "messages"), { from: "first", state: "ready", limit: 1, body_bytes: 0 }), 0);
  const settings = { ...queue.arguments, ...queue.effective_policy_definition };
  const start = queue.log_start_offset;
  const end = queue.log_end_offset;
  return html`
    <div class="grid-2">
      <section class="panel" aria-label="On the disk">
        <div class="panel-head"><h2>On the disk</h2>
          <button type="button" class="button small" disabled=${queues.length === 0} onClick=${() => openReplay(queue, queues)}><${Icon} name="replay" small />Replay…</button></div>
        <${Facts} rows=${[
          ["Log", Number.isFinite(queue.log_bytes) ? `${bytes(queue.log_bytes)} in ${plural(queue.segments, "segment")}` : null],
          ["Bodies waiting", Number.isFinite(queue.message_bytes) ? bytes(queue.message_bytes) : null],
          ["Offsets kept", Number.isFinite(start) ? html`${count(start)} to ${count(end)} <span class="quiet">(exclusive), ${count(end - start)} messages</span>` : null],
          ["Oldest waiting", oldest(queue, first.value)],
          ["In memory", Number.isFinite(queue.messages_ram) ? plural(queue.messages_ram, "message") : null],
        ]} />
        ${Number.isFinite(start) ? null : html`<p class="quiet">This server tells nothing about the log of the queue.</p>`}
      </section>
      <section class="panel" aria-label="Retention">
        <div class="panel-head"><h2>Retention and limits</h2></div>
        <${Facts} rows=${[
          ["Finished messages stay", retention(settings)],
          ["Age", settings["max-age"] ?? settings["x-max-age"]],
          ["Bytes", sizeOf(settings["max-length-bytes"] ?? settings["x-max-length-bytes"])],
          ["Messages", numberOf(settings["max-length"] ?? settings["x-max-length"])],
          ["Lifetime", millis(settings["message-ttl"] ?? settings["x-message-ttl"])],
          ["When it is full", settings.overflow ?? settings["x-overflow"]],
          ["Dead letters go to", settings["dead-letter-exchange"] ?? settings["x-dead-letter-exchange"]],
          ["Segment", sizeOf(settings["x-stream-max-segment-size-bytes"] ?? settings["stream-max-segment-size-bytes"])],
        ]} />
      </section>
    </div>
    ${isStream && html`<section class="panel flush" aria-label="Consumer groups"><div class="panel-head"><h2>Consumer groups</h2></div>
      ${groups.error && html`<div style=${{ padding: "14px 18px" }}><${Failure} error=${groups.error} what="The list of groups" /></div>`}
      <${GroupsTable} rows=${groups.value ?? []} isLoading=${groups.isLoading} />
    </section>`}`;
}

function oldest(queue, page) {
  if (Number.isFinite(queue.oldest_message_age)) return `${duration(queue.oldest_message_age)} old`;
  const [message] = page?.items ?? [];
  if (message?.timestamp) return `${ago(Date.parse(message.timestamp))}, offset ${count(message.offset)}`;
  return queue.head_message_timestamp ? moment(queue.head_message_timestamp * 1000) : null;
}

function retention(settings) {
  const age = settings["x-retain-for"] ?? settings["retain-for"];
  const size = settings["x-retain-bytes"] ?? settings["retain-bytes"];
  const parts = [age === undefined ? null : millis(age), size === undefined ? null : `up to ${bytes(size)}`].filter(Boolean);
  return parts.length ? parts.join(", ") : "as the server is configured (--retain-for, --retain-bytes)";
}

const millis = (value) => (value === undefined ? null : duration(value / 1000));
const sizeOf = (value) => (value === undefined ? null : bytes(value));
const numberOf = (value) => (value === undefined ? null : count(value));
