// Whether the broker is well, how much goes through it, and which queues need somebody.

import { html, useMemo } from "../app/html.js";
import { address, apiPath, apiQuery } from "../app/addresses.js";
import { alarmNames } from "../app/alarms.js";
import { useVhost } from "../app/chosen_vhost.js";
import { bytes, change, count, duration, plural, rate, shortCount } from "../app/format.js";
import { growthBrief, growthOf } from "../app/growth.js";
import { hiddenQueues, nothingToDo } from "../app/hidden_queues.js";
import { useRange } from "../app/location.js";
import { usePolled } from "../app/polling.js";
import { useQueues } from "../app/queue_list.js";
import { queueNumbers } from "../app/queue_numbers.js";
import { beganSeconds, gaugeLine, gaugePoints, RANGES, rangeParameters, rateLine, since } from "../app/samples.js";
import { mayAs, useSession } from "../app/session.js";
import { useTotals } from "../app/totals.js";
import { listPath } from "../app/vhost_paths.js";
import { whyItGrows } from "../app/why_it_grows.js";
import { Chart } from "../parts/chart.js";
import { Facts, Meter } from "../parts/facts.js";
import { Segmented } from "../parts/fields.js";
import { Empty, Failure, Notice } from "../parts/notices.js";
import { PageHead } from "../parts/page_head.js";

const ATTENTION_MAX = 8;
const LEVELS = { bad: 2, warn: 1 };
const PAST_EVERY_MS = 20_000;

export default function Overview({ query }) {
  const session = useSession();
  const { vhost } = useVhost();
  const [chosenRange, setRange] = useRange(query);
  // Of one virtual host, an hour is kept.
  const ranges = RANGES.filter(({ age }) => vhost === "" || age <= 3600);
  const range = ranges.some(({ key }) => key === chosenRange) ? chosenRange : ranges[ranges.length - 1].key;
  const overview = usePolled(`overview?${new URLSearchParams(rangeParameters(range))}`);
  const nodes = usePolled(mayAs(session, "monitoring") ? "nodes" : null);
  const health = usePolled("health/checks/alarms", 10000);
  const alarms = alarmNames(health) ?? [];
  const figures = useFigures(vhost, range, session);
  const counted = useTotals(vhost, overview.value?.object_totals) ?? {};
  const data = overview.value;
  const node = nodes.value?.[0];

  if (!data || (vhost !== "" && !figures.value)) {
    return html`<${PageHead} title="Overview" /><${Failure} error=${overview.error ?? figures.error} what="The overview" />
      ${!(overview.error ?? figures.error) && html`<div class="tiles">${[1, 2, 3, 4, 5].map((number) => html`<div class="tile" key=${number}><div class="skeleton" style=${{ height: "58px" }}></div></div>`)}</div>`}`;
  }
  const { stats, totals } = vhost === "" ? { stats: data.message_stats ?? {}, totals: data.queue_totals ?? {} } : { stats: figures.value.message_stats ?? {}, totals: figures.value };
  const objects = data.object_totals ?? {};
  const began = beganSeconds(node, totals.messages_ready_details);
  const rateOf = (name) => stats[`${name}_details`]?.rate ?? 0;
  return html`
    <${PageHead} title="Overview" path=${vhost === "" ? overview.path : figures.path}
      lead=${[`${data.product_name ?? "amqp-server"} ${data.product_version ?? data.rabbitmq_version}`, node && `up ${duration(node.uptime / 1000)}`, data.node].filter(Boolean).join(" · ")}
      actions=${html`<${Segmented} label="Time range" options=${ranges.map(({ key, label }) => [key, label])} value=${range} onChange=${setRange} />`} />
    <${Failure} error=${overview.error ?? figures.error} what="The overview" />
    ${alarms.length > 0 && html`<${Blocked} alarms=${alarms} node=${node} />`}
    <div class="tiles">
      <${Tile} label="Messages ready" href="#/queues" value=${shortCount(totals.messages_ready ?? 0)} detail=${`${change(totals.messages_details?.rate ?? 0)} · ${count(totals.messages_unacknowledged ?? 0)} unacked`} />
      <${Tile} label="Published" value=${rate(rateOf("publish"))} detail=${`${rate(rateOf("confirm"))} confirmed`} />
      <${Tile} label="Delivered" value=${rate(rateOf("deliver_get"))} detail=${`${rate(rateOf("redeliver"))} again`} />
      <${Tile} label="Acknowledged" value=${rate(rateOf("ack"))} detail=${unroutable(rateOf)} />
      <${Tile} label="Connections" href="#/connections" value=${count(counted.connections)} detail=${plural(counted.channels ?? 0, "channel")} />
      <${Tile} label="Queues" href="#/queues" value=${count(counted.queues)} detail=${vhost === "" ? plural(objects.consumers ?? 0, "consumer") : plural(counted.exchanges ?? 0, "exchange")} />
    </div>
    <div class="main-aside">
      <div class="stack loose">
        <${Chart} title="Messages per second" series=${since([
          { label: "Published", color: 1, points: rateLine(stats.publish_details) },
          { label: "Delivered", color: 2, points: rateLine(stats.deliver_get_details) },
          { label: "Acknowledged", color: 3, points: rateLine(stats.ack_details) },
          ...(rateOf("redeliver") ? [{ label: "Redelivered", color: 6, points: rateLine(stats.redeliver_details) }] : []),
        ], began)} />
        <${Chart} title=${vhost === "" ? "Messages in all queues" : `Messages in queues of ${vhost}`} format=${shortCount} isStacked series=${since([
          { label: "Unacked", color: 3, points: gaugeLine(totals.messages_unacknowledged_details) },
          { label: "Ready", color: 1, points: gaugeLine(totals.messages_ready_details) },
        ], began)} />
      </div>
      <div class="stack loose">
        <${Attention} alarms=${alarms} total=${vhost === "" ? objects.queues : undefined} vhost=${vhost} />
        ${node && html`<${Node} node=${node} isOfAll=${vhost !== ""} />`}
        <${Listeners} overview=${data} isOfAll=${vhost !== ""} />
      </div>
    </div>`;
}

/** Figures of the chosen virtual host with their past values; nothing when all are shown. */
function useFigures(vhost, range, session) {
  // Only an administrator may ask for one; it is a row of the list for others.
  const isAdministrator = mayAs(session);
  const path = isAdministrator ? apiPath("vhosts", vhost) : "vhosts";
  const answer = usePolled(vhost === "" ? null : apiQuery(path, rangeParameters(range)));
  const value = isAdministrator ? answer.value : answer.value?.find(({ name }) => name === vhost);
  return { ...answer, value };
}

function Tile({ label, value, detail, href }) {
  const content = html`<span class="label">${label}</span><span class="value">${value}</span><span class="detail">${detail}</span>`;
  return href ? html`<a class="tile" href=${href}>${content}</a>` : html`<div class="tile">${content}</div>`;
}

function unroutable(rateOf) {
  const lost = rateOf("drop_unroutable") + rateOf("return_unroutable");
  return lost > 0 ? `${rate(lost)} without a queue` : "all publishes routed";
}

function Blocked({ alarms, node }) {
  const reasons = [];
  if (node?.mem_alarm) reasons.push(`it uses ${bytes(node.mem_used)} of memory, the limit is ${bytes(node.mem_limit)}`);
  if (node?.disk_free_alarm) reasons.push(`${bytes(node.disk_free)} of disk are free, the limit is ${bytes(node.disk_free_limit)}`);
  if (node?.disk_stall_alarm) reasons.push("a write or sync of the disk does not return");
  return html`<${Notice} level="bad" role="alert">
    <strong>Publishers are blocked: alarm on ${alarms.join(" and ")}.</strong>
    ${reasons.length ? ` The broker blocks them because ${reasons.join(", and ")}.` : ""} Consumers keep working; what they finish makes room.
    ${" "}<a href="#/connections?filter=state:block">Show blocked connections</a>
  <//>`;
}

function Attention({ alarms, total, vhost }) {
  // Asked for after the numbers above are there: the list of 10,000 queues takes its time.
  const queues = useQueues(vhost);
  const found = useMemo(() => (queues.value ?? [])
    .map((queue) => ({ queue, why: whyItGrows(queue, alarms) }))
    .filter(({ why }) => why.level in LEVELS)
    .sort((left, right) => LEVELS[right.why.level] - LEVELS[left.why.level] || (right.queue.messages ?? 0) - (left.queue.messages ?? 0)),
  [queues.value, alarms.join()]);
  return html`<section class="panel flush" aria-label="Queues that need attention">
    <div class="panel-head"><h2>Needs attention</h2>${found.length > 0 && html`<span class="badge warn">${plural(found.length, "queue")}</span>`}</div>
    ${queues.isLoading && html`<div style=${{ padding: "16px 18px" }}><div class="skeleton"></div></div>`}
    ${queues.value && found.length === 0 && html`<${Empty} ...${nothingToDo(hiddenQueues(total, queues.value.length), queues.value.length)} />`}
    <div class="attention">${found.slice(0, ATTENTION_MAX).map(({ queue, why }) => html`
      <${AttentionRow} key=${`${queue.vhost}\n${queue.name}`} queue=${queue} why=${why} />`)}</div>
    ${found.length > ATTENTION_MAX && html`<a class="attention-row" href="#/queues?filter=attention:yes"><span></span><span>Show all ${count(found.length)}</span></a>`}
  </section>`;
}

/** One queue: the reason, since when, and the way there. */
function AttentionRow({ queue, why }) {
  // An hour in steps of a minute says since when it grows.
  const past = usePolled(apiQuery(apiPath("queues", queue.vhost, queue.name), { lengths_age: 3600, lengths_incr: 60, columns: "messages_details" }), PAST_EVERY_MS);
  const isGrowing = queueNumbers(queue).growth > 0.005;
  const growth = growthOf(gaugePoints(past.value?.messages_details));
  return html`<a class="attention-row" href=${address("queues", [queue.vhost, queue.name])}>
    <span class=${`dot ${why.level}`}></span>
    <span class="name">${queue.name}</span>
    <span class="num"><strong>${shortCount(queue.messages)}</strong><br /><span class="quiet small">${change(queueNumbers(queue).growth)}</span></span>
    <span class="reason">${why.headline}${growth && isGrowing && html`<span class="since"> · ${growthBrief(growth)}</span>`}</span>
  </a>`;
}

function Node({ node, isOfAll }) {
  const run = node.run_queue;
  return html`<section class="panel" aria-label="Node">
    <div class="panel-head"><h2>Node</h2><span class="quiet small">${isOfAll ? "of all virtual hosts" : node.name}</span></div>
    <${Meter} label="Memory" used=${node.mem_used} total=${node.mem_limit} format=${bytes} level=${node.mem_alarm ? "bad" : null} />
    <${Meter} label="Open files" used=${node.fd_used} total=${node.fd_total} format=${count} />
    <${Facts} rows=${[
      ["Free disk", html`${bytes(node.disk_free)} <span class="quiet">limit ${bytes(node.disk_free_limit)}</span>`],
      ["Processors", node.processors && `${node.processors}${run ? `, ${run} waiting` : ""}`],
      ["Data", node.db_dir && html`<code class="wrap">${node.db_dir}</code>`],
    ]} />
  </section>`;
}

function Listeners({ overview, isOfAll }) {
  if (!overview.listeners?.length) return null;
  const churn = overview.churn_rates ?? {};
  const churnRate = (name) => churn[`${name}_details`]?.rate ?? 0;
  return html`<section class="panel" aria-label="Listeners">
    <div class="panel-head"><h2>Listeners and churn</h2>${isOfAll && html`<span class="quiet small">of all virtual hosts</span>`}</div>
    <${Facts} rows=${[
      ...overview.listeners.filter(({ protocol }) => protocol !== "clustering").map(({ protocol, ip_address: host, port }) => [protocol, html`<code>${host}:${port}</code>`]),
      ["Connections", `${rate(churnRate("connection_created"))} opened, ${rate(churnRate("connection_closed"))} closed`],
      ["Channels", `${rate(churnRate("channel_created"))} opened, ${rate(churnRate("channel_closed"))} closed`],
    ]} />
  </section>`;
}
