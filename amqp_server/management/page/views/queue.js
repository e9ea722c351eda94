// One queue: why it grows, and what an operator does about it.

import { html } from "../app/html.js";
import { address, apiPath, apiQuery } from "../app/addresses.js";
import { alarmNames } from "../app/alarms.js";
import { ago, change, count, percent, plural, rate, shortCount, vhostCrumb } from "../app/format.js";
import { growthOf, growthWords } from "../app/growth.js";
import { useRange } from "../app/location.js";
import { usePolled } from "../app/polling.js";
import { useQueues } from "../app/queue_list.js";
import { queueNumbers } from "../app/queue_numbers.js";
import { gaugeLine, gaugePoints, RANGES, rangeParameters, rateLine, ratePoints } from "../app/samples.js";
import { isUnderWay, stateWords, transferWords } from "../app/transfers.js";
import { whyItGrows } from "../app/why_it_grows.js";
import { openDelete, openGetMessages, openPublish, openPurge, queueAddress, setPaused } from "../actions/queue_actions.js";
import { openMove, openReplay, openReturnDeadLetters } from "../actions/transfer_actions.js";
import { Chart } from "../parts/chart.js";
import { Entries, Facts } from "../parts/facts.js";
import { Segmented } from "../parts/fields.js";
import { Icon } from "../parts/icon.js";
import { Menu } from "../parts/menu.js";
import { Badge, Failure } from "../parts/notices.js";
import { PageHead } from "../parts/page_head.js";
import { Tabs } from "../parts/tabs.js";
import { stopTransfer, TransferBar } from "../parts/transfer_progress.js";
import { QueueBindings } from "./queue_bindings.js";
import { QueueConsumers } from "./queue_consumers.js";
import { QueueMessages } from "./queue_messages.js";
import { QueueStorage } from "./queue_storage.js";
import { QueueMarks } from "./queues.js";

export default function Queue({ names: [vhost, name, tab = ""], query }) {
  const [range, setRange] = useRange(query);
  const path = apiPath("queues", vhost, name);
  const wanted = range === "10m" || range === "1h" ? range : "1h"; // of one queue, an hour is kept
  const answer = usePolled(apiQuery(path, rangeParameters(wanted)), 5000);
  const queues = useQueues(vhost);
  const health = usePolled("health/checks/alarms", 10000);
  const queue = answer.value;
  const crumbs = [{ text: "Queues", href: "#/queues" }, { text: vhostCrumb(vhost), href: address("queues", [], { vhost }) }];
  if (!queue) {
    return html`<${PageHead} title=${name} crumbs=${crumbs} />
      <${Failure} error=${answer.error} what="The queue" />
      ${answer.isLoading && html`<div class="skeleton" style=${{ height: "150px" }} role="status" aria-label="Loading"></div>`}`;
  }
  const isPaused = queue.state === "paused";
  const isStream = queue.type === "stream";
  const others = queues.value ?? [];
  return html`
    <${PageHead} title=${name} crumbs=${crumbs} path=${answer.path}
      badges=${html`<${QueueMarks} queue=${queue} />${queue.state && queue.state !== "running" ? html`<${Badge} level=${isPaused ? "warn" : queue.state === "flow" ? "info" : "bad"}>${queue.state}<//>` : null}${queue.policy ? html`<${Badge}><a href=${address("policies", [], { filter: queue.policy })}>policy ${queue.policy}</a><//>` : null}`}
      actions=${html`
        <button type="button" class="button" onClick=${() => openPublish({ vhost, routingKey: name, title: `Publish to “${name}”` })}><${Icon} name="send" small />Publish</button>
        ${!isStream && html`<button type="button" class="button" onClick=${() => openGetMessages(queue)}><${Icon} name="inbox" small />Get</button>`}
        <${Menu} label="More actions" className="button" button=${html`More <${Icon} name="more" small />`}>
          <button type="button" onClick=${() => setPaused(queue, !isPaused)}><${Icon} name=${isPaused ? "play" : "pause"} small />${isPaused ? "Resume" : "Pause"}</button>
          <button type="button" disabled=${!queues.value} onClick=${() => openReplay(queue, others)}><${Icon} name="replay" small />Replay…</button>
          ${!isStream && html`<button type="button" disabled=${!queues.value} onClick=${() => openMove(queue, others)}><${Icon} name="move" small />Move messages…</button>
          <button type="button" onClick=${() => openReturnDeadLetters(queue)}><${Icon} name="inbox" small />Return dead letters…</button>`}
        <//>
        ${!isStream && html`<button type="button" class="button warn" onClick=${() => openPurge(queue)}><${Icon} name="purge" small />Purge</button>`}
        <button type="button" class="button danger" onClick=${() => openDelete(queue)}><${Icon} name="trash" small />Delete</button>`} />
    <${Failure} error=${answer.error} what="The queue" />
    <${Why} queue=${queue} alarms=${alarmNames(health) ?? []} />
    <${UnderWay} vhost=${vhost} name=${name} />
    <${Tabs} label="Parts of the queue" current=${tab} tabs=${[
      { key: "", title: "Overview", href: queueAddress(queue) },
      { key: "messages", title: "Messages", href: queueAddress(queue, "messages") },
      { key: "consumers", title: "Consumers and unacked", href: queueAddress(queue, "consumers"), count: queue.consumers },
      { key: "bindings", title: "Bindings", href: queueAddress(queue, "bindings") },
      { key: "storage", title: isStream ? "Log and groups" : "Log", href: queueAddress(queue, "storage") },
    ]} />
    ${tab === "" && html`<${QueueOverview} queue=${queue} range=${wanted} onRange=${setRange} />`}
    ${tab === "messages" && html`<${QueueMessages} queue=${queue} queues=${others} query=${query} />`}
    ${tab === "consumers" && html`<${QueueConsumers} queue=${queue} />`}
    ${tab === "bindings" && html`<${QueueBindings} queue=${queue} />`}
    ${tab === "storage" && html`<${QueueStorage} queue=${queue} queues=${others} />`}`;
}

function Why({ queue, alarms }) {
  const why = whyItGrows(queue, alarms);
  const numbers = queueNumbers(queue);
  const held = prefetch(queue);
  const since = numbers.isStream ? "" : sinceWords(queue);
  const cause = (stage) => (why.cause === stage ? " is-cause" : "");
  const sum = Math.max(1, numbers.ready + numbers.unacked);
  return html`<section class=${`why ${why.level}`} aria-label="Why this queue grows or not">
    <div class="why-text" role="status">
      <div><p class="headline">${why.headline}</p>${since && html`<p class="advice">${since}</p>`}${why.advice && html`<p class="advice">${why.advice}</p>`}</div>
      <${LevelWord} level=${why.level} />
    </div>
    <div class="flow">
      <div class=${`flow-stage${cause("publishers")}`}><span class="label">Publishers</span>
        <span class="value">${rate(numbers.in)}</span><span class="detail">${alarms.length ? "blocked by an alarm" : numbers.state === "flow" ? "slowed down" : "come in"}</span></div>
      <div class="flow-arrow"><${Icon} name="arrow" /></div>
      <div class=${`flow-stage${cause("queue")}`}><span class="label">In the queue</span>
        <span class="value">${count(numbers.total)} <small>${change(numbers.growth)}</small></span>
        <div class="meter" role="img" aria-label=${`${numbers.ready} ready, ${numbers.unacked} unacked`}>
          <span class="c1" style=${{ width: `${((numbers.ready / sum) * 100).toFixed(2)}%` }}></span>
          <span class="c3" style=${{ width: numbers.unacked ? `max(3px, ${((numbers.unacked / sum) * 100).toFixed(2)}%)` : "0" }}></span></div>
        <span class="detail"><span class="legend-dot c1"></span>${shortCount(numbers.ready)} ready${"  "}<span class="legend-dot c3" style=${{ marginLeft: "10px" }}></span>${shortCount(numbers.unacked)} unacked${numbers.lengthMax === null ? "" : html`<span class="quiet"> · limit ${count(numbers.lengthMax)}</span>`}</span></div>
      <div class="flow-arrow"><${Icon} name="arrow" /></div>
      <div class=${`flow-stage${cause("consumers")}`}><span class="label">${plural(numbers.consumers, "consumer")}${held === null ? "" : html`, prefetch ${held}`}</span>
        <span class="value">${rate(numbers.out)}</span>
        <span class="detail">${rate(numbers.acked)} acknowledged${numbers.consumers && numbers.utilisation !== null ? ` · free ${percent(numbers.utilisation)} of the time` : ""}${numbers.redelivered > 0.005 ? ` · ${rate(numbers.redelivered)} again` : ""}</span></div>
    </div>
  </section>`;
}

/** Since when it grows, and when consumers got something last. */
function sinceWords(queue) {
  const growth = growthOf(gaugePoints(queue.messages_details));
  const delivered = ratePoints(queue.message_stats?.deliver_get_details).filter(([, value]) => value > 0);
  const isStill = (queue.message_stats?.deliver_get_details?.rate ?? 0) < 0.005;
  const last = isStill && delivered.length ? ` The last delivery was ${ago(delivered[delivered.length - 1][0] * 1000)}.` : "";
  return growthWords(growth) + (growth ? last : last.trim());
}

/** What the broker moves from or to this queue at the moment. */
function UnderWay({ vhost, name }) {
  const answer = usePolled(apiQuery("transfers", { vhost, queue: name }), 2000);
  const open = (answer.value?.items ?? []).filter(isUnderWay);
  if (open.length === 0) return null;
  return html`<section class="panel" aria-label="Transfers under way">${open.slice(0, 3).map((transfer) => html`<div key=${transfer.id} class="row between">
    <span class="grow"><strong>${transferWords(transfer.kind).title}</strong> <span class="soft">${transfer.queue === name ? (transfer.to ? `to ${transfer.to}` : "") : `from ${transfer.queue}`}, ${stateWords(transfer)}</span>
      <${TransferBar} transfer=${transfer} /></span>
    <button type="button" class="button small" onClick=${() => stopTransfer(transfer)}><${Icon} name="close" small />Stop</button></div>`)}
    ${open.length > 3 && html`<a href="#/transfers">${plural(open.length, "transfer")} in all</a>`}
  </section>`;
}

function LevelWord({ level }) {
  return html`<span class="visually-hidden">${{ good: "Good", info: "For information", warn: "Warning", bad: "Problem" }[level]}</span>`;
}

function prefetch(queue) {
  const limits = [...new Set((queue.consumer_details ?? []).map((one) => one.prefetch_count ?? 0))].sort((a, b) => a - b);
  if (limits.length === 0) return null;
  return limits.map((limit) => (limit === 0 ? "unlimited" : count(limit))).join(" or ");
}

function QueueOverview({ queue, range, onRange }) {
  const stats = queue.message_stats ?? {};
  const ranges = RANGES.slice(0, 2).map(({ key, label }) => [key, label]);
  return html`
    <div class="row end"><${Segmented} label="Time range" options=${ranges} value=${range} onChange=${onRange} /></div>
    <div class="grid-2">
      <${Chart} title="Messages in the queue" format=${shortCount} isStacked series=${[
        { label: "Unacked", color: 3, points: gaugeLine(queue.messages_unacknowledged_details) },
        { label: "Ready", color: 1, points: gaugeLine(queue.messages_ready_details) },
      ]} />
      <${Chart} title="Messages per second" series=${[
        { label: "In", color: 1, points: rateLine(stats.publish_details) },
        { label: "Delivered", color: 2, points: rateLine(stats.deliver_get_details) },
        { label: "Acknowledged", color: 3, points: rateLine(stats.ack_details) },
        { label: "Redelivered", color: 6, points: rateLine(stats.redeliver_details) },
      ].filter(({ label, points }) => label !== "Redelivered" || points.some(([, value]) => value > 0))} />
    </div>
    <div class="grid-2">
      <section class="panel" aria-label="Settings"><h2>Settings</h2>
        <${Facts} rows=${[
          ["Type", queue.type ?? "classic"],
          ["Durable", queue.durable ? "yes" : "no: a restart removes it"],
          ["Exclusive to", queue.owner_pid_details?.name ?? (queue.exclusive ? "a connection" : null)],
          ["Auto-delete", queue.auto_delete ? "yes, with the last consumer" : null],
          ["Policy", queue.policy],
          ["Operator policy", queue.operator_policy],
          ["Idle since", queue.idle_since],
        ]} /></section>
      <section class="panel" aria-label="Arguments"><h2>Arguments and policy</h2>
        ${Object.keys({ ...queue.arguments, ...queue.effective_policy_definition }).length === 0
          ? html`<p class="quiet">No arguments, and no policy applies.</p>`
          : html`<${Entries} entries=${{ ...queue.effective_policy_definition, ...queue.arguments }} />`}</section>
    </div>`;
}
