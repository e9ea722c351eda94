// The server's log as it is written.

import { html, useEffect, useMemo, useRef, useState } from "../app/html.js";
import { clock } from "../app/format.js";
import { replaceQuery, useTypedFilter } from "../app/location.js";
import { follow } from "../app/server.js";
import { Segmented } from "../parts/fields.js";
import { Icon } from "../parts/icon.js";
import { ListFilter } from "../parts/list_filter.js";
import { Badge, Empty, Failure } from "../parts/notices.js";
import { PageHead } from "../parts/page_head.js";

const LINES_MAX = 1000;
const AGAIN_MS = 3000;
const LEVELS = [["", "All"], ["warning", "Warnings"], ["error", "Errors"]];
const RANKS = { debug: 0, info: 1, notice: 1, warning: 2, warn: 2, error: 3, critical: 4 };

export default function LiveLog({ query }) {
  const [filter, setFilter] = useTypedFilter(query);
  const level = query.level ?? "";
  const setLevel = (chosen) => replaceQuery({ level: chosen });
  const [isPaused, setPaused] = useState(false);
  const { lines, error, clear } = useLog(isPaused);
  const shown = useMemo(() => lines.filter((line) =>
    (RANKS[line.level] ?? 1) >= (RANKS[level] ?? 0) && line.text.toLowerCase().includes(filter.toLowerCase())), [lines, filter, level]);
  const end = useRef(null);
  useEffect(() => {
    if (!isPaused) end.current?.scrollIntoView({ block: "nearest" });
  }, [shown.length, isPaused]);
  return html`
    <${PageHead} title="Live log" lead="What the server writes to its log, from now on."
      actions=${html`<button type="button" class="button" aria-pressed=${String(isPaused)} onClick=${() => setPaused(!isPaused)}><${Icon} name=${isPaused ? "play" : "pause"} small />${isPaused ? "Go on" : "Pause"}</button>
        <button type="button" class="button" onClick=${clear}>Clear</button>`} />
    <${Failure} error=${error} what="The live log" />
    <div class="toolbar"><${ListFilter} label="Filter lines" value=${filter} onInput=${setFilter} /><${Segmented} label="Level" options=${LEVELS} value=${level} onChange=${setLevel} /></div>
    <section class="table-wrap tall" tabindex="0" aria-label="Lines of the log">
      ${shown.length === 0 ? html`<${Empty} icon="log" title=${lines.length ? "No line matches" : "Waiting for the next line"} text="The server is quiet while all is well." />`
        : html`<div class="log-lines" role="log">${shown.map((line) => html`<div class="log-line" key=${line.number}>
            <span class="quiet">${clock(line.time, true)}</span><span><${Badge} level=${line.level === "error" || line.level === "critical" ? "bad" : line.level === "warning" ? "warn" : ""}>${line.level}<//></span>
            <span class="text">${line.text}</span></div>`)}<div ref=${end}></div></div>`}
    </section>`;
}

let lineNumber = 0;

function useLog(isPaused) {
  const [lines, setLines] = useState([]);
  const [error, setError] = useState(null);
  useEffect(() => {
    if (isPaused) return undefined;
    const own = new AbortController();
    const run = async () => {
      while (!own.signal.aborted) {
        try {
          setError(null);
          await follow("livelog", ({ data }) => setLines((before) => [...before, logLine(data)].slice(-LINES_MAX)), own.signal);
        } catch (refused) {
          if (own.signal.aborted) return;
          setError(refused);
        }
        await new Promise((done) => setTimeout(done, AGAIN_MS));
      }
    };
    run();
    return () => own.abort();
  }, [isPaused]);
  return { lines, error, clear: () => setLines([]) };
}

function logLine(data) {
  lineNumber += 1;
  let value;
  try {
    value = JSON.parse(data);
  } catch {
    value = data; // a line of plain text
  }
  if (value === null || typeof value !== "object") value = { message: String(value) };
  const time = value.time ?? value.timestamp ?? Date.now();
  return {
    number: lineNumber,
    time: typeof time === "number" && time < 1e11 ? time * 1000 : time,
    level: String(value.level ?? value.severity ?? "info").toLowerCase(),
    text: value.message ?? value.text ?? value.line ?? JSON.stringify(value),
  };
}
