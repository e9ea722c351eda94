// Exports of logs to Parquet, Delta or Iceberg: what was exported, how far it is behind, and the command for more.

import { html, useEffect, useMemo, useState } from "../app/html.js";
import { address } from "../app/addresses.js";
import { useVhost } from "../app/chosen_vhost.js";
import { commandLine } from "../app/command_lines.js";
import { ago, count, duration, moment, plural, shortCount } from "../app/format.js";
import { usePolled } from "../app/polling.js";
import { useQueues } from "../app/queue_list.js";
import { mayAs, useSession } from "../app/session.js";
import { firstVhost, listPath } from "../app/vhost_paths.js";
import { CommandLines } from "../parts/copying.js";
import { Facts } from "../parts/facts.js";
import { Check, Select, TextField } from "../parts/fields.js";
import { Badge, Empty, Failure } from "../parts/notices.js";
import { PageHead } from "../parts/page_head.js";
import { QueueField } from "../parts/queue_field.js";
import { Table } from "../parts/table.js";

const FORMATS = [["parquet", "Parquet files"], ["delta", "A Delta table"], ["iceberg", "An Iceberg table"], ["jsonl.zst", "Lines of JSON, compressed"]];
// Exit codes of `amqp-server export`.
const OUTCOMES = {
  0: ["good", "exported"], 3: ["good", "nothing new"], 4: ["bad", "the log has lost offsets"], 5: ["bad", "the log is damaged"],
  2: ["bad", "refused"], 130: ["warn", "interrupted"],
};

export default function Exports() {
  const session = useSession();
  const { vhost } = useVhost();
  const known = usePolled(mayAs(session, "monitoring") ? listPath("exports", vhost) : null);
  const outputs = known.value?.exports ?? [];
  const readers = known.value?.readers ?? [];
  return html`
    <${PageHead} title="Exports" path=${known.path} lead="Every durable queue is a log on disk, so Spark reads it in batches beside the broker: exactly once into the table, without consuming a message." />
    <${Failure} error=${known.error} what="The list of exports" />
    ${known.isLoading && html`<div class="skeleton" style=${{ height: "120px" }} role="status" aria-label="Loading"></div>`}
    ${known.value && outputs.length === 0 && html`<section class="panel"><${Empty} icon="exports" title=${vhost === "" ? "No exports yet" : `No exports of “${vhost}” yet`} text="An export that runs beside this data directory appears here: what it wrote, when, and how far each queue is ahead of it." /></section>`}
    ${outputs.map((output) => html`<${Output} key=${output.out} output=${output} />`)}
    ${readers.length > 0 && html`<section class="panel" aria-label="Readers"><h2>Read now</h2>
      <p class="soft">Exports and streams of Spark that hold segments, so that retention keeps what they still have to read.</p>
      <${Facts} rows=${readers.map((reader) => [reader.queue, `from offset ${count(reader.low_offset)}, renewed ${duration(reader.renewed_seconds_ago)} ago`])} /></section>`}
    <${Compose} />`;
}

function Output({ output }) {
  const behind = output.queues.reduce((sum, queue) => sum + (queue.behind ?? 0), 0);
  const rows = output.queues.reduce((sum, queue) => sum + queue.rows, 0);
  const isOpen = output.ended_ns === 0;
  const [level, words] = isOpen ? ["info", "began, no end yet"] : OUTCOMES[output.exit_code] ?? ["bad", `failed (${output.exit_code})`];
  return html`<section class="panel flush" aria-label=${`Output ${output.out}`}>
    <div class="panel-head"><h2 class="wrap"><code>${output.out}</code></h2><${Badge} level=${level}>${words}<//>
      <span class="quiet small" title=${moment(output.started_ns / 1e6)}>${plural(output.runs, "run")}, the last ${ago(output.started_ns / 1e6)}${isOpen ? "" : `, took ${duration((output.ended_ns - output.started_ns) / 1e9)}`}</span></div>
    <div class="panel-facts"><${Facts} rows=${[
      ["Format", output.settings.to], ["Written", plural(rows, "message")],
      ["Behind", html`<${Badge} level=${behind > 100_000 ? "warn" : behind ? "" : "good"}>${behind ? `${shortCount(behind)} offsets` : "up to date"}<//>`],
      ["Partitions", output.settings.partition_by], ["Messages", output.settings.include === "all" ? null : output.settings.include],
    ]} /><${CommandLines} command=${againLine(output)} request=${null} /></div>
    <${Table} label=${`Queues of ${output.out}`} rows=${output.queues} rowKey=${(row) => `${row.vhost}\n${row.queue}`} columns=${[
      { key: "queue", title: "Queue", isMain: true, value: (row) => row.queue, cell: (row) => (row.exists ? html`<a class="name" href=${address("queues", [row.vhost, row.queue])}>${row.queue}</a>` : html`<span class="name">${row.queue}</span> <span class="quiet">deleted</span>`) },
      { key: "vhost", title: "Virtual host", option: 2, cell: (row) => row.vhost },
      { key: "status", title: "Last run", cell: (row) => html`<${Badge} level=${row.error ? "bad" : "good"} title=${row.error}>${row.error ? "failed" : row.status === "nothing_new" ? "nothing new" : row.status}<//>` },
      { key: "end", title: "Exported to", isRight: true, option: 1, cell: (row) => count(row.end) },
      { key: "behind", title: "Behind", isRight: true, cell: (row) => (row.is_same ? count(row.behind) : html`<span class="quiet">${row.exists ? "another queue now" : "–"}</span>`) },
      { key: "rows", title: "Messages", isRight: true, option: 1, cell: (row) => shortCount(row.rows) },
      { key: "ended", title: "When", isRight: true, option: 2, cell: (row) => html`<span class="soft" title=${moment(row.ended_ns / 1e6)}>${ago(row.ended_ns / 1e6)}</span>` },
    ]} empty=${{ title: isOpen ? "The first run has not ended" : "Nothing was exported", icon: "exports" }} />
    ${output.queues.filter(({ error }) => error).slice(0, 3).map((row) => html`<p key=${row.queue} class="panel-note wrap">${row.queue}: ${row.error}</p>`)}
  </section>`;
}

/** The command of the last run, as far as it is known. */
function againLine({ out, settings }) {
  return commandLine("amqp-server", "export", "--vhost", settings.vhost ?? "/",
    ...(settings.pattern ? ["--pattern", settings.pattern] : (settings.queues ?? []).flatMap((queue) => ["--queue", queue])),
    "--to", settings.to ?? "parquet", "--out", out, ...(settings.since === "last" ? ["--since", "last"] : []),
    ...(settings.include && settings.include !== "all" ? ["--include", settings.include] : []),
    ...(settings.partition_by ? ["--partition-by", settings.partition_by] : []),
    ...(settings.on_corrupt === "quarantine" ? ["--on-corrupt", "quarantine"] : []), settings.allow_data_loss ? "--allow-data-loss" : null);
}

function Compose() {
  const { vhost, names: hosts } = useVhost();
  const first = firstVhost(vhost, hosts ?? ["/"]);
  const [values, setValues] = useState({ queue: "", vhost: first, format: "parquet", to: "/data/lake/orders", verify: true });
  const set = (name) => (event) => setValues({ ...values, [name]: event.target.type === "checkbox" ? event.target.checked : event.target.value });
  useEffect(() => setValues((last) => ({ ...last, vhost: first })), [first]);
  const queues = useQueues(values.vhost);
  const names = useMemo(() => (queues.value ?? []).filter(({ durable }) => durable !== false).map(({ name }) => name), [queues.value]);
  const lines = [
    commandLine("amqp-server", "export", "--vhost", values.vhost, "--queue", values.queue || "QUEUE", "--to", values.format, "--out", values.to),
    commandLine("amqp-server", "export", "status", "--out", values.to),
    ...(values.verify ? [commandLine("amqp-server", "export", "verify", "--out", values.to)] : []),
  ];
  return html`<${Failure} error=${queues.error} what="The list of queues" />
    <div class="grid-2">
      <section class="panel" aria-label="Export"><h2>Put together a command</h2>
        ${hosts?.length > 1 && html`<${Select} label="Virtual host" value=${values.vhost} onInput=${set("vhost")} options=${hosts} />`}
        <${QueueField} label="Queue" names=${names} value=${values.queue} onInput=${set("queue")} />
        <${Select} label="Into" value=${values.format} onInput=${set("format")} options=${FORMATS} />
        <${TextField} label="Destination" isMono value=${values.to} onInput=${set("to")} help="A directory, or s3://bucket/prefix" />
        <${Check} label="Then verify that every message is there once" checked=${values.verify} onChange=${set("verify")} />
      </section>
      <section class="panel" aria-label="Commands"><h2>Run it</h2>
        <${CommandLines} command=${lines.join("\n")} request=${null} />
        <p class="soft">It runs where Spark and the data directory are. The first run takes what the log has; each further run takes what is new since then. It keeps its place in the destination, so a run that was killed goes on where it was.</p>
      </section>
    </div>`;
}
