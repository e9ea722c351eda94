// Who deleted, purged or changed what, from where and when.

import { html, useEffect, useMemo, useState } from "../app/html.js";
import { useVhost } from "../app/chosen_vhost.js";
import { commandLine } from "../app/command_lines.js";
import { moment } from "../app/format.js";
import { replaceQuery } from "../app/location.js";
import { usePolled } from "../app/polling.js";
import { ask } from "../app/server.js";
import { listPath } from "../app/vhost_paths.js";
import { CommandLines } from "../parts/copying.js";
import { ListView } from "../parts/list_view.js";
import { Select } from "../parts/fields.js";
import { Badge, Failure } from "../parts/notices.js";

// Logins and connections are many: who looks for a deletion does not want them in between.
const CHANGES = [
  "queue.*", "exchange.*", "binding.*", "vhost.*", "policy.*", "operator_policy.*", "permission.*", "topic.permission.*",
  "user.created", "user.deleted", "user.password.*", "user.tags.*", "user.limits.*", "parameter.*", "definitions.*",
  "offsets.*", "import.*", "transfer.*", "message.*", "server.*", "audit.*",
].join(",");
const KINDS = [["", "All changes"], ["*", "Everything, with logins and connections"], ["queue.*", "Queues"], ["exchange.*", "Exchanges"], ["binding.*", "Bindings"], ["user.*", "Users and logins"], ["permission.*", "Permissions"], ["policy.*", "Policies"], ["connection.*", "Connections"], ["vhost.*", "Virtual hosts"], ["definitions.*", "Definitions"]];
const PAGE = 500;
const FIELDS = { event: (row) => row.event, user: (row) => row.user ?? "", vhost: (row) => row.vhost ?? "", object: (row) => row.object ?? "" };

export default function Audit({ query }) {
  const event = query.event ?? "";
  const { vhost } = useVhost();
  const path = listPath("audit", vhost, { event: event || CHANGES, limit: PAGE });
  const answer = usePolled(path, 5000);
  const older = useOlder(path);
  const rows = useMemo(() => [...(answer.value?.items ?? []), ...older.events], [answer.value, older.events]);
  const next = (older.events.length ? older.next : answer.value?.next) ?? null;
  const [isShown, setShown] = useState(false);
  return html`<${ListView} title="Audit log" noun="event" answer=${answer} rows=${rows} query=${query} fields=${FIELDS} placeholder="Name, user, or event:deleted vhost:/"
    words=${(row) => [row.event, row.user ?? "", row.object ?? "", row.vhost ?? "", row.peer ?? "", JSON.stringify(row.details ?? "")]}
    lead="Who created, deleted, purged or changed something. Passwords and messages are never in it."
    rowKey=${(row) => `${row.time} ${row.event} ${row.vhost} ${row.object} ${row.peer} ${row.connection}`}
    columns=${[
      { key: "time", width: 206, title: "Time", isNewestFirst: true, value: (row) => Date.parse(row.time), cell: (row) => html`<${Time} row=${row} />` },
      { key: "event", width: 190, title: "Event", isBrief: true, value: (row) => row.event, cell: (row) => html`<${Badge} level=${level(row.event)}>${row.event}<//>` },
      { key: "object", title: "Object", isMain: true, value: (row) => row.object ?? "", cell: (row) => html`<span class="name">${row.object ?? html`<span class="zero">–</span>`}</span>` },
      { key: "vhost", width: 116, title: "Virtual host", option: 2, value: (row) => row.vhost ?? "", cell: (row) => html`<span class="soft">${row.vhost ?? ""}</span>` },
      { key: "user", width: 110, title: "By", option: 1, value: (row) => row.user ?? "", cell: (row) => row.user || html`<span class="quiet">the server</span>` },
      { key: "peer", width: 170, title: "From", option: 1, value: (row) => row.peer ?? "", cell: (row) => html`<span class="soft">${[row.peer, row.connection].filter(Boolean).join("  ")}</span>` },
      { key: "details", width: 360, title: "Details", option: 1, cell: (row) => html`<code class="soft" title=${JSON.stringify(row.details ?? {})}>${detailsText(row.details)}</code>` },
    ]}
    empty=${{ title: "No events", text: "Nothing of this kind happened in this time, or the audit log is switched off (--audit-files 0).", icon: "audit" }}>
    <div class="toolbar">
      <${Select} label="Kind" options=${KINDS} value=${event} onInput=${(change) => replaceQuery({ event: change.target.value })} />
      <span class="grow"></span>
      <button type="button" class="button small" aria-pressed=${String(isShown)} onClick=${() => setShown(!isShown)}>Command line</button>
    </div>
    ${isShown && html`<${CommandLines} request=${{ method: "GET", path }} command=${commandLine("amqp-server", "audit", ...(event ? ["--event", event] : []), ...(vhost ? ["--vhost", vhost] : []))} />`}
    <${Failure} error=${older.error} what="Earlier events" />
  <//>
  ${next !== null && html`<div class="row"><button type="button" class="button" disabled=${older.isLoading} onClick=${() => older.load(next)}>${older.isLoading ? html`<span class="spinner"></span>` : null}Load earlier events</button></div>`}`;
}

/** A phone has room for the time of day; the rest is what it says when it is touched. */
function Time({ row }) {
  const [day, clock] = moment(row.time, true).split(" ");
  const [seconds, millis] = (clock ?? "").split(".");
  return html`<span class="num" title=${`${moment(row.time, true)} by ${row.user || "the server"}`}><span class="opt-1">${day} </span>${seconds}<span class="opt-1">${millis ? `.${millis}` : ""}</span></span>`;
}

/** Pages that are older than the newest one, which is asked again and again. */
function useOlder(path) {
  const empty = { events: [], next: null, isLoading: false, error: null };
  const [state, setState] = useState(empty);
  useEffect(() => setState(empty), [path]);
  const load = async (before) => {
    setState((last) => ({ ...last, isLoading: true, error: null }));
    try {
      const page = await ask(`${path}&${new URLSearchParams({ before })}`);
      setState((last) => ({ events: [...last.events, ...page.items], next: page.next, isLoading: false, error: null }));
    } catch (error) {
      setState((last) => ({ ...last, isLoading: false, error }));
    }
  };
  return { ...state, load };
}

function level(event) {
  if (event.endsWith(".failure") || event === "audit.lost") return "bad";
  if (event.endsWith(".deleted") || event.endsWith(".purged") || event.endsWith(".cleared")) return "warn";
  return "";
}

function detailsText(details) {
  return Object.entries(details ?? {}).map(([name, value]) => `${name}=${typeof value === "object" ? JSON.stringify(value) : value}`).join("  ");
}
