// Users, queues, exchanges, bindings and policies as one file: out, and in again.

import { html, useEffect, useState } from "../app/html.js";
import { apiPath } from "../app/addresses.js";
import { useVhost } from "../app/chosen_vhost.js";
import { bytes, count, plural } from "../app/format.js";
import { commandLine } from "../app/command_lines.js";
import { announceChange } from "../app/polling.js";
import { ask } from "../app/server.js";
import { CommandLines } from "../parts/copying.js";
import { Select } from "../parts/fields.js";
import { Icon } from "../parts/icon.js";
import { Failure, Notice, toast } from "../parts/notices.js";
import { PageHead } from "../parts/page_head.js";
import { Table } from "../parts/table.js";

const SECTIONS = ["users", "vhosts", "permissions", "topic_permissions", "parameters", "global_parameters", "policies", "queues", "exchanges", "bindings"];

export default function Definitions() {
  return html`<${PageHead} title="Definitions" lead="Everything but the messages: users, permissions, virtual hosts, exchanges, queues, bindings, policies and limits. The file is that of RabbitMQ." />
    <div class="grid-2"><${Export} /><${Import} /></div>`;
}

function Export() {
  const { vhost: chosen, names } = useVhost();
  const [vhost, setVhost] = useState(chosen);
  useEffect(() => setVhost(chosen), [chosen]);
  const [isBusy, setBusy] = useState(false);
  const [error, setError] = useState(null);
  const path = vhost === "" ? "definitions" : apiPath("definitions", vhost);
  const download = async () => {
    setBusy(true);
    setError(null);
    try {
      const text = JSON.stringify(await ask(path), null, 2);
      const link = document.createElement("a");
      link.href = URL.createObjectURL(new Blob([text], { type: "application/json" }));
      link.download = `definitions-${new Date().toISOString().slice(0, 10)}.json`;
      link.click();
      URL.revokeObjectURL(link.href);
      toast(`Exported ${bytes(text.length)}.`);
    } catch (refused) {
      setError(refused);
    } finally {
      setBusy(false);
    }
  };
  return html`<section class="panel" aria-label="Export"><h2>Export</h2>
    <${Select} label="What" value=${vhost} onInput=${(event) => setVhost(event.target.value)} options=${[["", "The whole broker"], ...(names ?? []).map((name) => [name, `Only the virtual host ${name}`])]} />
    ${vhost === "" && html`<p class="quiet small">The file has the hashes of all passwords: keep it as you keep passwords.</p>`}
    <div class="row"><button type="button" class="button primary" disabled=${isBusy} onClick=${download}><${Icon} name="definitions" small />Download definitions</button></div>
    <${Failure} error=${error} what="The export" />
    <${CommandLines} request=${{ method: "GET", path }} command=${commandLine("amqp-server", "definitions", "export", "definitions.json", ...(vhost ? ["--vhost", vhost] : []))} />
  </section>`;
}

function Import() {
  const { vhost: chosen, names } = useVhost();
  const [file, setFile] = useState(null);
  const [vhost, setVhost] = useState(chosen);
  useEffect(() => setVhost(chosen), [chosen]);
  const [error, setError] = useState(null);
  const [report, setReport] = useState(null);
  const [isBusy, setBusy] = useState(false);
  const path = vhost === "" ? "definitions" : apiPath("definitions", vhost);
  const read = async (event) => {
    const [chosen] = event.target.files;
    setReport(null);
    setError(null);
    setFile(null);
    if (!chosen) return;
    try {
      setFile({ name: chosen.name, size: chosen.size, value: JSON.parse(await chosen.text()) });
    } catch (invalid) {
      setError({ message: `${chosen.name} is not JSON: ${invalid.message}` });
    }
  };
  const send = async (isDryRun) => {
    setBusy(true);
    setError(null);
    try {
      const answer = await ask(`${path}?${isDryRun ? "dry_run" : "report"}=true`, { method: "POST", body: file.value });
      setReport({ isDryRun, answer });
      if (!isDryRun) {
        toast("The definitions are imported.");
        announceChange();
      }
    } catch (refused) {
      setReport(null);
      setError(refused);
    } finally {
      setBusy(false);
    }
  };
  return html`<section class="panel" aria-label="Import"><h2>Import</h2>
    <div class="field"><label class="label" for="definitions-file">File</label><input id="definitions-file" type="file" accept=".json,application/json" onChange=${read} /></div>
    <${Select} label="Into" value=${vhost} onInput=${(event) => { setVhost(event.target.value); setReport(null); }} options=${[["", "The virtual hosts that it names"], ...(names ?? []).map((name) => [name, `The virtual host ${name}`])]} />
    ${file && html`<p><strong>${file.name}</strong>, ${bytes(file.size)}: ${SECTIONS.filter((section) => file.value[section]?.length).map((section) => `${count(file.value[section].length)} ${section.replaceAll("_", " ")}`).join(", ") || "nothing that can be imported"}</p>`}
    <div class="row">
      <button type="button" class="button primary" disabled=${!file || isBusy} onClick=${() => send(true)}>${isBusy ? html`<span class="spinner"></span>` : null}Check: change nothing</button>
      <button type="button" class="button warn" disabled=${!file || isBusy || !report?.isDryRun} onClick=${() => send(false)}>Import</button>
    </div>
    ${!report && file && html`<p class="quiet small">The check says what would be made, what differs, and every mistake. After it you can import.</p>`}
    ${error && html`<${Notice} level="bad" role="alert">${error.message}${error.details?.mistakes && html`<ul>${error.details.mistakes.slice(0, 20).map((line) => html`<li key=${line}>${line}</li>`)}</ul>`}<//>`}
    ${report && html`<${Report} report=${report} />`}
    <${CommandLines} command=${commandLine("amqp-server", "definitions", "import", file?.name ?? "definitions.json", ...(vhost ? ["--vhost", vhost] : []), "--dry-run")} request=${null} />
  </section>`;
}

function Report({ report: { isDryRun, answer } }) {
  const sections = Object.entries(answer?.sections ?? {});
  if (sections.length === 0) {
    return html`<${Notice} level="good" role="status">${isDryRun ? "The file can be imported." : "Imported."}<//>`;
  }
  return html`<div class="stack" role="status">
    <${Notice} level="good"><strong>${isDryRun ? "This would happen:" : "This was done:"}</strong><//>
    <${Table} label="Result by section" rows=${sections.map(([name, numbers]) => ({ name, ...numbers }))} rowKey=${(row) => row.name} columns=${[
      { key: "name", title: "Section", cell: (row) => row.name.replaceAll("_", " ") },
      ...["created", "changed", "equal", "different", "skipped"].map((key) => ({ key, title: key, isRight: true, cell: (row) => (row[key] ? count(row[key]) : html`<span class="zero">0</span>`) })),
    ]} />
    ${[...(answer.different ?? []), ...(answer.skipped ?? [])].slice(0, 50).map((line) => html`<p class="small wrap" key=${line}>${line}</p>`)}
    ${(answer.different?.length ?? 0) > 0 && html`<${Notice} level="warn">${plural(answer.different.length, "object")} ${answer.different.length === 1 ? "exists" : "exist"} with other values, and ${answer.different.length === 1 ? "stays" : "stay"} as ${answer.different.length === 1 ? "it is" : "they are"}.<//>`}
  </div>`;
}
