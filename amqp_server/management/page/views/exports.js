// Batches of a queue as Parquet, Delta or Iceberg: the command for it, with its options explained.

import { html, useState } from "../app/html.js";
import { commandLine } from "../app/command_lines.js";
import { useQueues } from "../app/queue_list.js";
import { CommandLines } from "../parts/copying.js";
import { Check, Select, TextField } from "../parts/fields.js";
import { Failure } from "../parts/notices.js";
import { PageHead } from "../parts/page_head.js";

const FORMATS = [["parquet", "Parquet files"], ["delta", "A Delta table"], ["iceberg", "An Iceberg table"], ["jsonl.zst", "Lines of JSON, compressed"]];

export default function Exports() {
  const queues = useQueues();
  const [values, setValues] = useState({ queue: "", format: "parquet", to: "/data/lake/orders", verify: true });
  const set = (name) => (event) => setValues({ ...values, [name]: event.target.type === "checkbox" ? event.target.checked : event.target.value });
  const rows = (queues.value ?? []).filter(({ durable }) => durable !== false);
  const chosen = rows.find((row) => `${row.vhost}\n${row.name}` === values.queue) ?? rows[0];
  const where = chosen ? ["--vhost", chosen.vhost, "--queue", chosen.name] : ["--queue", "QUEUE"];
  const lines = [
    commandLine("amqp-server", "export", ...where, "--to", values.format, "--out", values.to),
    commandLine("amqp-server", "export", "status", "--out", values.to),
    ...(values.verify ? [commandLine("amqp-server", "export", "verify", "--out", values.to)] : []),
  ];
  return html`
    <${PageHead} title="Exports" lead="Every durable queue is a log on disk, so Spark reads it in batches beside the broker: exactly once into the table, without consuming a message. An export runs where Spark and the data directory are." />
    <${Failure} error=${queues.error} what="The list of queues" />
    <div class="grid-2">
      <section class="panel" aria-label="Export"><h2>Put together a command</h2>
        <${Select} label="Queue" value=${chosen ? `${chosen.vhost}\n${chosen.name}` : ""} onInput=${set("queue")} options=${rows.map((row) => [`${row.vhost}\n${row.name}`, row.vhost === "/" ? row.name : `${row.name} in ${row.vhost}`])} />
        <${Select} label="Into" value=${values.format} onInput=${set("format")} options=${FORMATS} />
        <${TextField} label="Destination" isMono value=${values.to} onInput=${set("to")} help="A directory, or s3://bucket/prefix" />
        <${Check} label="Then verify that every message is there once" checked=${values.verify} onChange=${set("verify")} />
      </section>
      <section class="panel" aria-label="Commands"><h2>Run it</h2>
        <${CommandLines} command=${lines.join("\n")} request=${null} />
        <p class="soft">The first run takes what the log has; each further run takes what is new since then. It keeps its place in the destination, so a run that was killed goes on where it was.</p>
      </section>
    </div>`;
}
