// Replays, returns and moves of messages: what the broker does now, and what it did last.

import { html } from "../app/html.js";
import { address } from "../app/addresses.js";
import { useVhost } from "../app/chosen_vhost.js";
import { ago, duration } from "../app/format.js";
import { usePolled } from "../app/polling.js";
import { isUnderWay, stateWords, transferWords } from "../app/transfers.js";
import { listPath } from "../app/vhost_paths.js";
import { Icon } from "../parts/icon.js";
import { ListView } from "../parts/list_view.js";
import { Badge } from "../parts/notices.js";
import { stopTransfer, TransferBar } from "../parts/transfer_progress.js";

const LEVELS = { running: "info", waiting: "", done: "good", failed: "bad", stopped: "warn" };
const FIELDS = {
  kind: (row) => row.kind, state: (row) => row.state, vhost: (row) => row.vhost, queue: (row) => row.queue,
  to: (row) => row.to, user: (row) => row.user,
};

export default function Transfers({ query }) {
  const { vhost } = useVhost();
  const transfers = usePolled(listPath("transfers", vhost), 2000);
  const rows = transfers.value?.items ?? [];
  const waiting = (transfers.value?.total ?? 0) - rows.length;
  return html`<${ListView} title="Transfers" noun="transfer" answer=${transfers} rows=${rows} query=${{ sort: "none", ...query }} fields=${FIELDS}
    words=${(row) => [row.queue, row.to, row.user]} placeholder="Queue, or state:failed kind:move"
    lead="Messages that the broker moves, replays or returns. It goes on when this page is closed; a restart ends it, and loses nothing."
    rowKey=${(row) => String(row.id)}
    columns=${[
      { key: "kind", width: 84, title: "What", value: (row) => row.kind, cell: (row) => html`<strong>${transferWords(row.kind).title}</strong>` },
      { key: "queue", title: "From", isMain: true, value: (row) => row.queue, cell: (row) => html`<a class="name" href=${address("queues", [row.vhost, row.queue])}>${row.queue}</a>` },
      { key: "to", width: 170, title: "To", isBrief: true, option: 1, value: (row) => row.to, cell: (row) => (row.to ? html`<a href=${address("queues", [row.vhost, row.to])}>${row.to}</a>` : html`<span class="quiet">where they came from</span>`) },
      { key: "state", width: 126, title: "State", value: (row) => row.state, cell: (row) => html`<${Badge} level=${LEVELS[row.state]} title=${row.reason}>${isUnderWay(row) ? stateWords(row) : row.state}<//>` },
      { key: "progress", width: 220, title: "Progress", cell: (row) => html`<${TransferBar} transfer=${row} />` },
      { key: "user", width: 100, title: "Begun by", option: 2, value: (row) => row.user, cell: (row) => row.user || html`<span class="zero">–</span>` },
      { key: "started", width: 116, title: "Begun", option: 1, isRight: true, value: (row) => row.started_ms, cell: (row) => html`<span class="soft">${ago(row.started_ms)}</span>` },
      { key: "took", width: 84, title: "Took", option: 2, isRight: true, value: (row) => took(row), cell: (row) => html`<span class="soft num">${row.ended_ms ? duration(took(row)) : "–"}</span>` },
      { key: "actions", width: 88, title: "", isRight: true, cell: (row) => (isUnderWay(row) ? html`<button type="button" class="button small" disabled=${row.is_stopping} onClick=${() => stopTransfer(row)}><${Icon} name="close" small />Stop</button>` : null) },
    ]}
    empty=${{ title: "Nothing is under way", text: "Move, replay or return messages from the page of a queue: their progress is shown here. The last hundred stay until the server restarts.", icon: "move" }}>
    ${waiting > 0 && html`<p class="quiet">${waiting} more wait for their turn.</p>`}
  <//>`;
}

function took(row) {
  return row.ended_ms ? (row.ended_ms - row.started_ms) / 1000 : 0;
}
