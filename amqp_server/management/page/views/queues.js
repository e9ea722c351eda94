// All queues: 10,000 of them are found, sorted and changed as fast as ten.

import { html, useMemo, useState } from "../app/html.js";
import { bytes, change, count, duration, percent, plural, rate, shortCount } from "../app/format.js";
import { useVhost } from "../app/chosen_vhost.js";
import { depthsOf } from "../app/depth_history.js";
import { hiddenQueues, noQueues } from "../app/hidden_queues.js";
import { replaceQuery, useTypedFilter } from "../app/location.js";
import { usePolled } from "../app/polling.js";
import { usePreference } from "../app/preferences.js";
import { useQueues } from "../app/queue_list.js";
import { queueNumbers, statRate } from "../app/queue_numbers.js";
import { rowFilter } from "../app/row_filter.js";
import { sorted } from "../app/sorting.js";
import { firstVhost } from "../app/vhost_paths.js";
import { whyItGrows } from "../app/why_it_grows.js";
import { openBulk, openDeclareQueue, queueAddress } from "../actions/queue_actions.js";
import { openBulkMove } from "../actions/transfer_actions.js";
import { Icon } from "../parts/icon.js";
import { ListFilter } from "../parts/list_filter.js";
import { Menu } from "../parts/menu.js";
import { Badge, Failure } from "../parts/notices.js";
import { PageHead } from "../parts/page_head.js";
import { Sparkline } from "../parts/sparkline.js";
import { Table } from "../parts/table.js";

const rowKey = (queue) => `${queue.vhost}\n${queue.name}`;

export const QUEUE_FIELDS = {
  name: (queue) => queue.name,
  vhost: (queue) => queue.vhost,
  type: (queue) => queue.type ?? "classic",
  state: (queue) => (queue.idle_since ? "idle" : queue.state),
  policy: (queue) => queue.policy ?? "",
  messages: (queue) => queue.messages ?? 0,
  ready: (queue) => queue.messages_ready ?? 0,
  unacked: (queue) => queue.messages_unacknowledged ?? 0,
  consumers: (queue) => queue.consumers ?? 0,
  in: (queue) => statRate(queue, "publish"),
  out: (queue) => statRate(queue, "deliver_get"),
  ack: (queue) => statRate(queue, "ack"),
  growth: (queue) => queueNumbers(queue).growth,
  durable: (queue) => queue.durable,
  why: (queue) => whyItGrows(queue).short,
  attention: (queue) => (["bad", "warn"].includes(whyItGrows(queue).level) ? "yes" : "no"),
};

const ALL_COLUMNS = [
  { key: "vhost", width: 130, title: "Virtual host", option: 3, value: (queue) => queue.vhost, cell: (queue) => html`<span class="soft">${queue.vhost}</span>` },
  { key: "type", width: 108, title: "Type", option: 2, value: (queue) => queue.type, cell: (queue) => html`<${QueueMarks} queue=${queue} />` },
  { key: "why", width: 166, title: "Why", value: (queue) => whyItGrows(queue).short, cell: (queue) => html`<${Why} queue=${queue} />` },
  { key: "trend", width: 146, title: "Growth", isRight: true, option: 1, value: (queue) => queueNumbers(queue).growth, cell: (queue) => html`<${Growth} queue=${queue} />` },
  { key: "ready", width: 76, title: "Ready", isRight: true, value: (queue) => queue.messages_ready ?? 0, cell: (queue) => number(queue.messages_ready) },
  { key: "unacked", width: 86, title: "Unacked", isRight: true, option: 1, value: (queue) => queue.messages_unacknowledged ?? 0, cell: (queue) => number(queue.messages_unacknowledged) },
  { key: "in", width: 74, title: "In", isRight: true, option: 1, value: (queue) => statRate(queue, "publish"), cell: (queue) => speed(statRate(queue, "publish")) },
  { key: "out", width: 74, title: "Out", isRight: true, option: 1, value: (queue) => statRate(queue, "deliver_get"), cell: (queue) => speed(statRate(queue, "deliver_get")) },
  { key: "ack", width: 76, title: "Acked", isRight: true, option: 2, value: (queue) => statRate(queue, "ack"), cell: (queue) => speed(statRate(queue, "ack")) },
  { key: "consumers", width: 102, title: "Consumers", isRight: true, option: 1, value: (queue) => queue.consumers ?? 0, cell: (queue) => number(queue.consumers) },
  { key: "utilisation", width: 90, title: "Capacity", isRight: true, isHidden: true, option: 3, value: (queue) => queueNumbers(queue).utilisation, cell: (queue) => (queue.consumers ? percent(queueNumbers(queue).utilisation) : html`<span class="zero">–</span>`) },
  { key: "size", width: 96, title: "Bytes", isRight: true, option: 3, isHidden: true, value: (queue) => queue.log_bytes ?? queue.message_bytes ?? 0, cell: (queue) => bytes(queue.log_bytes ?? queue.message_bytes) },
  { key: "oldest", width: 96, title: "Oldest", isRight: true, option: 3, isHidden: true, value: (queue) => queue.oldest_message_age ?? null, cell: (queue) => (queue.oldest_message_age === undefined ? html`<span class="zero">–</span>` : duration(queue.oldest_message_age)) },
  { key: "features", width: 150, title: "Features", option: 3, isHidden: true, value: (queue) => featuresOf(queue).length, cell: (queue) => html`<span class="row tight nowrap">${featuresOf(queue).map(([short, long]) => html`<${Badge} key=${short} title=${long}>${short}<//>`)}</span>` },
  { key: "policy", width: 130, title: "Policy", option: 3, isHidden: true, value: (queue) => queue.policy ?? "", cell: (queue) => queue.policy ?? html`<span class="zero">–</span>` },
];

export default function Queues({ query }) {
  const { vhost, names: hosts } = useVhost();
  const queues = useQueues(vhost);
  // An empty list says whether there are queues that the user may not see.
  const overview = usePolled(vhost === "" && queues.value?.length === 0 ? "overview?columns=object_totals" : null);
  const [filter, onFilter] = useTypedFilter(query);
  const [selection, setSelection] = useState(new Set());
  const [hidden, setHidden] = usePreference("queues.hidden", ALL_COLUMNS.filter(({ isHidden }) => isHidden).map(({ key }) => key));
  const order = { key: query.sort ?? "name", isDescending: query.down === "1" };
  const rows = queues.value ?? [];
  // The order of all is kept while somebody types: only the filter runs again.
  const ordered = useMemo(() => {
    const valueOf = ALL_COLUMNS.find(({ key }) => key === order.key)?.value ?? ((queue) => queue.name);
    return sorted(rows, valueOf, order.isDescending);
  }, [rows, order.key, order.isDescending]);
  const shown = useMemo(
    () => ordered.filter(rowFilter(filter, QUEUE_FIELDS, (queue) => [queue.name, queue.vhost])),
    [ordered, filter],
  );
  const hasVhosts = useMemo(() => rows.some(({ vhost }) => vhost !== rows[0].vhost), [rows]);
  const columns = useMemo(() => [
    { key: "name", title: "Name", isMain: true, value: (queue) => queue.name, cell: (queue) => html`<a class="name" href=${queueAddress(queue)} title=${queue.name}>${queue.name}</a>` },
    ...ALL_COLUMNS.filter(({ key }) => !hidden.includes(key) && (key !== "vhost" || hasVhosts)),
  ], [hidden, hasVhosts]);
  const chosen = useMemo(() => (selection.size ? shown.filter((queue) => selection.has(rowKey(queue))) : []), [shown, selection]);
  const waiting = useMemo(() => shown.reduce((sum, queue) => sum + (queue.messages_ready ?? 0), 0), [shown]);

  return html`
    <${PageHead} title="Queues" path=${queues.path}
      lead=${queues.value && (filter ? `${count(shown.length)} of ${plural(rows.length, "queue")}, ${plural(waiting, "message")} waiting` : `${plural(rows.length, "queue")}, ${plural(waiting, "message")} waiting`)}
      actions=${html`<button type="button" class="button primary" disabled=${!hosts} onClick=${() => openDeclareQueue(hosts, firstVhost(vhost, hosts))}><${Icon} name="plus" small />New queue</button>`} />
    <${Failure} error=${queues.error} what="The list" />
    <div class="toolbar">
      <${ListFilter} label="Filter queues" value=${filter} onInput=${onFilter} placeholder="Name, or ready>1000 consumers:0 type:stream" />
      <${Quick} filter=${filter} onFilter=${onFilter} />
      <span class="grow"></span>
      <${Menu} label="Columns" button=${html`<${Icon} name="columns" small />Columns`}>
        ${ALL_COLUMNS.map(({ key, title }) => html`<label key=${key}><input type="checkbox" checked=${!hidden.includes(key)}
          onChange=${(event) => setHidden(event.target.checked ? hidden.filter((one) => one !== key) : [...hidden, key])} />${title}</label>`)}
      <//>
    </div>
    <${Table} label="Queues" columns=${columns} rows=${shown} rowKey=${rowKey} order=${order} isOrdered isLoading=${queues.isLoading}
      onOrder=${({ key, isDescending }) => replaceQuery({ sort: key, down: isDescending ? "1" : "" })}
      selection=${selection} onSelect=${setSelection}
      empty=${filter ? { title: "No queue matches", text: "The filter looks at all queues.", icon: "search", action: html`<button type="button" class="button" onClick=${() => onFilter("")}>Clear the filter</button>` }
        : vhost !== "" ? { title: `No queues in “${vhost}”`, text: "A queue appears here as soon as a client declares it. You can also make one now.", icon: "queue" }
          : noQueues(hiddenQueues(overview.value?.object_totals?.queues, 0))} />
    ${chosen.length > 0 && html`<div class="selection-bar" role="region" aria-label="Selected queues">
      <strong>${plural(chosen.length, "queue")}</strong><span class="soft">${plural(chosen.reduce((sum, queue) => sum + (queue.messages ?? 0), 0), "message")}</span>
      <span class="grow"></span>
      <button type="button" class="button" onClick=${() => openBulkMove(chosen, rows, () => setSelection(new Set()))}><${Icon} name="move" small />Move messages</button>
      <button type="button" class="button warn" onClick=${() => openBulk(chosen, "purge", () => setSelection(new Set()))}><${Icon} name="purge" small />Purge</button>
      <button type="button" class="button danger" onClick=${() => openBulk(chosen, "delete", () => setSelection(new Set()))}><${Icon} name="trash" small />Delete</button>
      <button type="button" class="button plain" onClick=${() => setSelection(new Set())}>Clear</button>
    </div>`}`;
}

const QUICK = [["attention:yes", "Needs attention"], ["ready>0", "Not empty"], ["consumers:0", "No consumers"]];

function Quick({ filter, onFilter }) {
  const has = (part) => filter.split(/\s+/).includes(part);
  const toggle = (part) => onFilter(has(part) ? filter.split(/\s+/).filter((one) => one !== part).join(" ") : `${filter} ${part}`.trim());
  return html`<span class="row tight" role="group" aria-label="Quick filters">${QUICK.map(([part, label]) => html`
    <button key=${part} type="button" class="button small" aria-pressed=${String(has(part))} onClick=${() => toggle(part)}>${label}</button>`)}</span>`;
}

export function QueueMarks({ queue }) {
  return html`<span class="row tight">
    <${Badge} level=${queue.type === "stream" ? "info" : ""}>${queue.type ?? "classic"}<//>
    ${queue.durable === false && html`<${Badge} title="Does not survive a restart">transient<//>`}
    ${queue.exclusive && html`<${Badge} title="Belongs to one connection">exclusive<//>`}
    ${queue.auto_delete && html`<${Badge} title="Goes with its last consumer">auto-delete<//>`}
  </span>`;
}

function Why({ queue }) {
  const why = whyItGrows(queue);
  if (!why.short || why.level === "good") return html`<span class="zero">${why.short || "–"}</span>`;
  return html`<${Badge} level=${why.level} title=${why.headline}>${why.short}<//>`;
}

const FEATURES = [
  ["x-message-ttl", "message-ttl", "TTL", "Messages expire"], ["x-expires", "expires", "Exp", "The queue expires"],
  ["x-max-length", "max-length", "Lim", "A maximum number of messages"], ["x-max-length-bytes", "max-length-bytes", "LimB", "A maximum of bytes"],
  ["x-dead-letter-exchange", "dead-letter-exchange", "DLX", "Dead letters go to an exchange"], ["x-max-priority", "max-priority", "Pri", "Priorities"],
  ["x-single-active-consumer", "", "SAC", "A single active consumer"], ["x-retain-for", "retain-for", "Keep", "Settled messages stay for a time"],
];

/** What is special about a queue, by its arguments and policy: short and long words. */
function featuresOf(queue) {
  const found = FEATURES.filter(([argument, key]) => queue.arguments?.[argument] !== undefined || (key && queue.effective_policy_definition?.[key] !== undefined));
  return found.map(([, , short, long]) => [short, long]);
}

/** How fast it grows, with the trend since the page was opened. */
function Growth({ queue }) {
  const { growth } = queueNumbers(queue);
  const depths = depthsOf(queue);
  const isFlat = depths.every(([, depth]) => depth === null || depth === depths[0][1]);
  if (isFlat && Math.abs(growth) < 0.005) return html`<span class="zero">–</span>`;
  return html`<span class="growth">${depths.length > 2 && !isFlat && html`<${Sparkline} points=${depths} label="" />`}<span class=${growth > 0 ? "grows" : "soft"}>${change(growth)}</span></span>`;
}

function number(value) {
  return value ? shortCount(value) : html`<span class="zero">${value === undefined ? "–" : "0"}</span>`;
}

function speed(value) {
  return value ? rate(value) : html`<span class="zero">–</span>`;
}
