// Every health check that load balancers and probes ask, with its answer now.

import { html, useEffect, useState } from "../app/html.js";
import { checkSummary } from "../app/check_summary.js";
import { bytes, count, duration } from "../app/format.js";
import { usePolled } from "../app/polling.js";
import { ask, ORIGIN } from "../app/server.js";
import { mayAs, useSession } from "../app/session.js";
import { Facts, Meter } from "../parts/facts.js";
import { Badge, Empty, Failure } from "../parts/notices.js";
import { CopyButton } from "../parts/copying.js";
import { PageHead } from "../parts/page_head.js";

const CHECKS = [
  ["alarms", "No alarm on memory or disk", "Publishers are blocked while one is on."],
  ["disk", "The disk answers", "Confirms wait while a write or sync does not return."],
  ["local-alarms", "No alarm on this node", "The same for this node: there is only one."],
  ["virtual-hosts", "All virtual hosts run", "Every definition could be read when the server started."],
  ["protocol-listener/amqp", "AMQP listens", "Clients can connect, whatever the port."],
  ["certificate-expiration/1/months", "Certificates are valid for a month", "Of all listeners with TLS."],
  ["node-is-quorum-critical", "Not critical for a quorum", "Always so on a single node."],
];
const EVERY_MS = 10_000;

export default function Health() {
  const session = useSession();
  const nodes = usePolled(mayAs(session, "monitoring") ? "nodes" : null);
  const results = useChecks();
  const summary = checkSummary(CHECKS.map(([path]) => path), results);
  const node = nodes.value?.[0];
  return html`
    <${PageHead} title="Health" lead="The checks that a load balancer or a probe asks. Each answers 200 when it is well and 503 with the reason when it is not."
      badges=${summary && html`<${Badge} level=${summary.level}>${summary.text}<//>`} />
    <${Failure} error=${nodes.error} what="The node" />
    <div class="main-aside">
      <section class="panel flush" aria-label="Checks"><div class="attention">${CHECKS.map(([path, title, text]) => html`<${CheckRow} key=${path} path=${path} title=${title} text=${text} result=${results[path]} />`)}</div></section>
      <div class="stack loose">
        ${node ? html`<section class="panel" aria-label="Node"><div class="panel-head"><h2>Node</h2><span class="quiet small">${node.name}</span></div>
          <${Meter} label="Memory" used=${node.mem_used} total=${node.mem_limit} format=${bytes} level=${node.mem_alarm ? "bad" : null} />
          <${Meter} label="Open files" used=${node.fd_used} total=${node.fd_total} format=${count} />
          <${Meter} label="Sockets" used=${node.sockets_used} total=${node.sockets_total} format=${count} />
          <${Facts} rows=${[
            ["Free disk", `${bytes(node.disk_free)}, alarm below ${bytes(node.disk_free_limit)}`],
            ["Up", duration(node.uptime / 1000)], ["Process", node.os_pid],
            ["Syncs of the disk", node.io_sync_count ? `${count(node.io_sync_count)}, ${duration((node.io_sync_avg_time ?? 0) / 1000)} each` : null],
            ["Log files", [node.log_files ?? []].flat().join(", ")], ["Configuration", [node.config_files ?? []].flat().join(", ")],
          ]} /></section>` : html`<section class="panel"><${Empty} icon="node" title="No numbers of the node" text="They need the tag monitoring." /></section>`}
      </div>
    </div>`;
}

function CheckRow({ path, title, text, result }) {
  const level = !result ? "" : result.isFailed ? "bad" : "good";
  return html`<div class="attention-row"><span class=${`dot ${level}`}></span>
    <span class="name">${title} <span class="visually-hidden">${level === "bad" ? "failed" : level === "good" ? "well" : "not known"}</span></span>
    <span class="num"><${CopyButton} text=${`${ORIGIN}/api/health/checks/${path}`} label="Copy address" /></span>
    <span class="reason">${result?.isFailed ? result.reason : text}</span></div>`;
}

function useChecks() {
  const [results, setResults] = useState({});
  useEffect(() => {
    const own = new AbortController();
    let timer = 0;
    const round = async () => {
      for (const [path] of CHECKS) {
        let result;
        try {
          await ask(`health/checks/${path}`, { signal: own.signal });
          result = { isFailed: false };
        } catch (error) {
          if (own.signal.aborted) return;
          result = { isFailed: true, reason: error.message };
        }
        setResults((before) => ({ ...before, [path]: result }));
      }
      timer = setTimeout(round, EVERY_MS);
    };
    round();
    return () => {
      own.abort();
      clearTimeout(timer);
    };
  }, []);
  return results;
}
