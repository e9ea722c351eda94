// Streams, and how far behind each consumer group is.

import { html, useEffect, useMemo, useState } from "../app/html.js";
import { address, apiPath } from "../app/addresses.js";
import { useVhost } from "../app/chosen_vhost.js";
import { bytes, count, duration, plural, rate, shortCount } from "../app/format.js";
import { commandLine } from "../app/command_lines.js";
import { useQueues } from "../app/queue_list.js";
import { statRate } from "../app/queue_numbers.js";
import { ask } from "../app/server.js";
import { ActionDialog, openDialog } from "../parts/dialog.js";
import { Check, TextField } from "../parts/fields.js";
import { Badge, Failure } from "../parts/notices.js";
import { PageHead } from "../parts/page_head.js";
import { Table } from "../parts/table.js";

const GROUPS_EVERY_MS = 5000;
const STREAMS_MAX = 200;

export default function Streams() {
  const { vhost } = useVhost();
  const queues = useQueues(vhost);
  const streams = useMemo(() => (queues.value ?? []).filter(({ type }) => type === "stream"), [queues.value]);
  const groups = useGroups(streams);
  return html`
    <${PageHead} title="Streams and groups" lead="A stream keeps its messages; each consumer group has a place of its own in it. Lag is what a group has not finished yet." />
    <${Failure} error=${queues.error} what="The list" />
    <section class="panel flush" aria-label="Streams"><div class="panel-head"><h2>Streams</h2><span class="quiet small">${plural(streams.length, "stream")}</span></div>
      <${Table} label="Streams" rows=${streams} isLoading=${queues.isLoading} rowKey=${(row) => `${row.vhost}\n${row.name}`} columns=${[
        { key: "name", title: "Name", isMain: true, value: (row) => row.name, cell: (row) => html`<a class="name" href=${address("queues", [row.vhost, row.name])}>${row.name}</a>` },
        { key: "vhost", title: "Virtual host", option: 1, cell: (row) => row.vhost },
        { key: "messages", title: "Messages", isRight: true, cell: (row) => shortCount(row.messages) },
        { key: "in", title: "In", isRight: true, cell: (row) => rate(statRate(row, "publish")) },
        { key: "out", title: "Out", isRight: true, option: 1, cell: (row) => rate(statRate(row, "deliver_get")) },
        { key: "consumers", title: "Consumers", isRight: true, option: 1, cell: (row) => count(row.consumers) },
        { key: "bytes", title: "Log", isRight: true, option: 2, cell: (row) => bytes(row.log_bytes ?? row.message_bytes) },
      ]} empty=${{ title: "No streams", text: "Declare a queue with x-queue-type = stream: every consumer then reads all messages from a place of its own.", icon: "stream" }} />
    </section>
    <section class="panel flush" aria-label="Consumer groups"><div class="panel-head"><h2>Consumer groups</h2></div>
      ${groups.error && html`<div style=${{ padding: "14px 18px" }}><${Failure} error=${groups.error} what="The list of groups" /></div>`}
      <${GroupsTable} rows=${groups.rows} isLoading=${groups.isLoading && streams.length > 0} />
    </section>`;
}

/** Groups of every stream, one stream after the other. */
function useGroups(streams) {
  const [state, setState] = useState({ rows: [], error: null, isLoading: true });
  const names = streams.slice(0, STREAMS_MAX).map(({ vhost, name }) => apiPath("queues", vhost, name, "groups")).join("\n");
  useEffect(() => {
    const own = new AbortController();
    let timer = 0;
    const round = async () => {
      let rows = [];
      let error = null;
      for (const path of names ? names.split("\n") : []) {
        try {
          rows = rows.concat(groupRows(await ask(path, { signal: own.signal })));
        } catch (refused) {
          if (own.signal.aborted) return;
          error = refused;
          break;
        }
      }
      setState({ rows, error, isLoading: false });
      timer = setTimeout(round, GROUPS_EVERY_MS);
    };
    round();
    return () => {
      own.abort();
      clearTimeout(timer);
    };
  }, [names]);
  return state;
}

function groupRows(value) {
  return Array.isArray(value) ? value : value?.items ?? [];
}

/** Rewind a group, or skip: its members go on from another place. */
function openSeek(group) {
  const members = Array.isArray(group.members) ? group.members.length : group.members ?? 0;
  openDialog((close) => html`<${ActionDialog} onClose=${close} isCaution title=${`Move the group “${group.group}”`} confirm="Move the group"
    initial=${{ to: "earliest", force: false }}
    fields=${(values, set) => html`
      <p>The group goes on from there: messages before it count as finished, messages from it on are delivered, again if need be. Now it is at ${group.committed === null || group.committed === undefined ? "no offset yet" : html`offset <strong>${count(group.committed)}</strong>`} of ${count(group.log_end_offset)}.</p>
      <${TextField} label="To" isMono value=${values.to} onInput=${set("to")} help="earliest, latest, an offset, -100, an age (1h), or a time" data-autofocus />
      ${members > 0 && html`<${Check} label=${`Also with ${plural(members, "member")}: they get messages from there at once`} checked=${values.force} onChange=${set("force")} />`}`}
    request=${(values) => values.to === "" ? null : ({ method: "PUT", path: apiPath("queues", group.vhost, group.queue, "groups", group.group), body: { to: values.to, ...(values.force ? { force: true } : {}) } })}
    command=${(values) => commandLine("amqp-server", "offsets", "seek", "--vhost", group.vhost, "--queue", group.queue, "--group", group.group, "--to", values.to || "PLACE", values.force ? "--force" : null)}
    done=${(row) => `The group is at offset ${count(row?.committed)}.`} />`);
}

export function GroupsTable({ rows, isLoading }) {
  const list = groupRows(rows);
  return html`<${Table} label="Consumer groups" rows=${list} isLoading=${isLoading} rowKey=${(row) => `${row.vhost}\n${row.queue}\n${row.group}`} columns=${[
    { key: "group", title: "Group", isMain: true, value: (row) => row.group, cell: (row) => html`<span class="name">${row.group}</span>` },
    { key: "queue", title: "Stream", option: 1, cell: (row) => html`<a href=${address("queues", [row.vhost, row.queue])}>${row.queue}</a>` },
    { key: "lag", title: "Lag", isRight: true, cell: (row) => html`<${Badge} level=${row.lag > 10000 ? "bad" : row.lag > 0 ? "warn" : "good"}>${shortCount(row.lag)}<//>` },
    { key: "lag_bytes", title: "In bytes", isRight: true, option: 2, cell: (row) => bytes(row.lag_bytes) },
    { key: "committed", title: "Committed", isRight: true, option: 1, cell: (row) => (row.committed === null || row.committed === undefined ? "never" : count(row.committed)) },
    { key: "end", title: "End of the log", isRight: true, option: 2, cell: (row) => count(row.log_end_offset) },
    { key: "unacked", title: "Unacked", isRight: true, option: 2, cell: (row) => count(row.unacked) },
    { key: "oldest", title: "Oldest unacked", isRight: true, option: 3, cell: (row) => (row.oldest_unacked_seconds ? duration(row.oldest_unacked_seconds) : "–") },
    { key: "actions", title: "", isRight: true, cell: (row) => html`<button type="button" class="button plain small" aria-label=${`Move group ${row.group}`} onClick=${() => openSeek(row)}>Move</button>` },
    { key: "members", title: "Members", isRight: true, cell: (row) => count(Array.isArray(row.members) ? row.members.length : row.members) },
  ]} empty=${{ title: "No consumer groups", text: "A consumer joins one with the argument x-consumer-group. Its offset then survives a reconnect.", icon: "users" }} />`;
}
