// The messages of a queue by offset and time, with a search, without taking any.

import { html, useCallback, useEffect, useMemo, useRef, useState } from "../app/html.js";
import { apiPath, apiQuery } from "../app/addresses.js";
import { commandLine } from "../app/command_lines.js";
import { bytes, clock, count, exchangeName, moment, plural } from "../app/format.js";
import { replaceQuery } from "../app/location.js";
import { bodyPreview, firstDeath, headerText } from "../app/message_bodies.js";
import { messageMatches } from "../app/message_search.js";
import { ask } from "../app/server.js";
import { openPublish } from "../actions/queue_actions.js";
import { openReplay, openReturnDeadLetters } from "../actions/transfer_actions.js";
import { CommandLines } from "../parts/copying.js";
import { Segmented, TextField } from "../parts/fields.js";
import { Icon } from "../parts/icon.js";
import { Badge, Empty, Failure } from "../parts/notices.js";
import { MessageView } from "../parts/message_view.js";
import { Sheet } from "../parts/sheet.js";
import { Table } from "../parts/table.js";

const PAGE = 100;
const SEARCH_PAGES_MAX = 20;
const TAIL_MS = 1000;
const TAIL_ROWS_MAX = 500;
const STATES = [["", "All"], ["ready", "Ready"], ["unacked", "Unacked"], ["settled", "Settled"]];
const LEVELS = { ready: "info", unacked: "warn", settled: "" };

export function QueueMessages({ queue, queues, query }) {
  const [draft, setDraft] = useState({ from: query.from ?? "-100", header: query.header ?? "", search: query.search ?? "" });
  useEffect(() => setDraft({ from: query.from ?? "-100", header: query.header ?? "", search: query.search ?? "" }), [query.from, query.header, query.search]);
  const wanted = { from: query.from ?? "-100", state: query.state ?? "", header: query.header ?? "", search: query.search ?? "" };
  const isTail = query.tail === "1";
  const path = apiPath("queues", queue.vhost, queue.name, "messages");
  const chosen = query.message ? Number(query.message) : null;
  const setChosen = (offset) => replaceQuery({ message: offset === null ? "" : String(offset) });
  const list = useMessages(path, wanted, isTail);
  const change = (name) => (event) => setDraft({ ...draft, [name]: event.target.value });
  const submit = (event) => {
    event.preventDefault();
    replaceQuery({ from: draft.from || "first", header: draft.header, search: draft.search, tail: "" });
  };
  const shown = list.rows.find(({ offset }) => offset === chosen);
  const move = (step) => {
    const place = list.rows.findIndex(({ offset }) => offset === chosen) + step;
    if (list.rows[place]) setChosen(list.rows[place].offset);
  };
  return html`
    <form class="panel" onSubmit=${submit} aria-label="Which messages">
      <div class="fields">
        <${TextField} label="From" isMono value=${draft.from} onInput=${change("from")} help="Offset, -100, 1h, 2026-08-01T12:00, first" />
        <${TextField} label="Header equals" isMono placeholder="customer=7" value=${draft.header} onInput=${change("header")} help="Filtered by the server" />
        <${TextField} label="Search in keys, headers and bodies" value=${draft.search} onInput=${change("search")} data-filter help="Words; all of them must be there" />
      </div>
      <div class="toolbar">
        <button type="submit" class="button primary"><${Icon} name="search" small />Show messages</button>
        <button type="button" class="button" aria-pressed=${String(isTail)} onClick=${() => replaceQuery({ tail: isTail ? "" : "1" })}><${Icon} name=${isTail ? "pause" : "play"} small />Live tail</button>
        <${Segmented} label="State" options=${STATES} value=${wanted.state} onChange=${(state) => replaceQuery({ state })} />
        <span class="grow"></span>
        <span class="quiet small" role="status">${status(list, isTail)}</span>
      </div>
    </form>
    <${Failure} error=${list.error} what="The list of messages" />
    <${Table} label="Messages" rows=${list.rows} rowKey=${(row) => String(row.offset)} isLoading=${list.isLoading && list.rows.length === 0}
      columns=${[
        { key: "offset", title: "Offset", cell: (row) => html`<button type="button" class="button plain small num" onClick=${() => setChosen(row.offset)}>${count(row.offset)}</button>` },
        { key: "time", title: "Time", option: 1, cell: (row) => html`<span class="num soft" title=${moment(row.timestamp, true)}>${row.timestamp ? timeOf(row.timestamp) : "in memory"}</span>` },
        { key: "state", title: "State", option: 1, cell: (row) => html`<${Badge} level=${LEVELS[row.state]}>${row.state}<//>` },
        { key: "key", title: "Exchange and key", option: 2, isBrief: true, text: (row) => `${exchangeName(row.exchange)} ${row.routing_key}`, cell: (row) => html`<span class="soft">${exchangeName(row.exchange)}</span> <code>${row.routing_key}</code>` },
        { key: "headers", title: "Headers", option: 3, isBrief: true, text: headersPreview, cell: (row) => html`<span class="small soft">${headersPreview(row)}</span>` },
        { key: "bytes", title: "Size", isRight: true, option: 2, cell: (row) => bytes(row.body_bytes) },
        { key: "body", title: "Body", text: bodyPreview, cell: (row) => html`<code>${bodyPreview(row)}</code>` },
      ]}
      empty=${isTail ? { title: "Waiting for new messages", text: "Each new message appears here within a second. Nothing is taken from the queue.", icon: "stream" }
        : { title: "No messages here", text: wanted.search || wanted.header || wanted.state ? "Nothing in this part of the log matches." : "The log has no messages from this place on.", icon: "search" }} />
    ${list.canContinue && html`<div class="row"><button type="button" class="button" disabled=${list.isLoading} onClick=${list.loadMore}>${list.isLoading ? html`<span class="spinner"></span>` : null}${wanted.search ? `Search on from offset ${count(list.next)}` : "Load more"}</button></div>`}
    <${CommandLines} request=${{ method: "GET", path: apiQuery(path, parameters(wanted, wanted.from)) }}
      command=${commandLine("amqp-server", "browse", "--vhost", queue.vhost, "--queue", queue.name, "--from", wanted.from, ...(wanted.state ? ["--state", wanted.state] : []), ...(wanted.header ? ["--filter", wanted.header] : []))} />
    ${shown && html`<${MessageSheet} message=${shown} path=${path} queue=${queue} queues=${queues} onClose=${() => setChosen(null)} onMove=${move} />`}`;
}

function parameters({ state, header }, from, limit = PAGE, bodyBytes = 400) {
  return { from, state, filter: header, limit, body_bytes: bodyBytes };
}

function useMessages(path, wanted, isTail) {
  const [list, setList] = useState({ rows: [], next: null, searched: 0, isLoading: true, error: null });
  const identity = JSON.stringify([path, wanted, isTail]);
  const abort = useRef(null);

  const load = useCallback(async (from, before) => {
    abort.current?.abort();
    const own = new AbortController();
    abort.current = own;
    let { rows, searched } = before;
    let next = from;
    setList({ ...before, isLoading: true, error: null });
    try {
      // A search reads on until it has found something to show.
      for (let page = 0; page < (wanted.search ? SEARCH_PAGES_MAX : 1); page += 1) {
        const answer = await ask(apiQuery(path, parameters(wanted, next, wanted.search ? 500 : PAGE, wanted.search ? -1 : 400)), { signal: own.signal });
        searched += answer.items.length;
        rows = [...rows, ...answer.items.filter((message) => messageMatches(message, wanted.search))];
        next = answer.next;
        setList({ rows, next, searched, isLoading: true, error: null });
        if (next === null || rows.length - before.rows.length >= PAGE) break;
      }
      setList({ rows, next, searched, isLoading: false, error: null });
    } catch (error) {
      if (!own.signal.aborted) setList({ rows, next, searched, isLoading: false, error });
    }
  }, [identity]);

  const tail = useCallback(async (signal) => {
    let next = "next";
    let rows = [];
    let searched = 0;
    while (!signal.aborted) {
      try {
        const answer = await ask(apiQuery(path, parameters(wanted, next, 200)), { signal });
        next = String(answer.next ?? answer.until);
        searched += answer.items.length;
        const fresh = answer.items.filter((message) => messageMatches(message, wanted.search)).reverse();
        rows = [...fresh, ...rows].slice(0, TAIL_ROWS_MAX);
        setList({ rows, next: null, searched, isLoading: false, error: null });
      } catch (error) {
        if (signal.aborted) return;
        setList({ rows, next: null, searched, isLoading: false, error });
      }
      await new Promise((done) => setTimeout(done, TAIL_MS));
    }
  }, [identity]);

  useEffect(() => {
    const empty = { rows: [], next: null, searched: 0, isLoading: true, error: null };
    if (isTail) {
      const own = new AbortController();
      setList(empty);
      tail(own.signal);
      return () => own.abort();
    }
    load(wanted.from, empty);
    return () => abort.current?.abort();
  }, [identity]);

  return {
    ...list,
    canContinue: !isTail && list.next !== null,
    loadMore: () => load(String(list.next), list),
  };
}

/** The time of day of today's messages, the whole moment of older ones. */
function timeOf(timestamp) {
  const isToday = new Date(timestamp).toDateString() === new Date().toDateString();
  return isToday ? clock(timestamp, true) : moment(timestamp);
}

function status(list, isTail) {
  if (isTail) return `Live: ${plural(list.searched, "new message")}`;
  if (list.isLoading) return list.searched ? `Searched ${plural(list.searched, "message")}…` : "Loading…";
  if (list.error) return "";
  const found = plural(list.rows.length, "message");
  return list.searched > list.rows.length ? `${found} of ${count(list.searched)} searched` : found;
}

function headersPreview(row) {
  const headers = Object.entries(row.properties?.headers ?? {});
  if (headers.length === 0) return html`<span class="zero">–</span>`;
  return headers.slice(0, 3).map(([name, value]) => `${name}=${headerText(value)}`).join("  ") + (headers.length > 3 ? ` +${headers.length - 3}` : "");
}

function MessageSheet({ message, path, queue, queues, onClose, onMove }) {
  const [whole, setWhole] = useState(null);
  const [error, setError] = useState(null);
  useEffect(() => {
    setWhole(null);
    setError(null);
    if (!message.is_body_cut) return undefined;
    const own = new AbortController();
    ask(apiQuery(path, { from: message.offset, limit: 1, body_bytes: 1_000_000 }), { signal: own.signal })
      .then(({ items }) => setWhole(items.find(({ offset }) => offset === message.offset) ?? null))
      .catch((refused) => own.signal.aborted || setError(refused));
    return () => own.abort();
  }, [message.offset]);
  const death = useMemo(() => firstDeath(message.properties?.headers), [message]);
  const shown = whole ?? message;
  const republish = () => openPublish({
    vhost: queue.vhost, exchange: message.exchange, routingKey: message.routing_key, title: "Publish a copy of the message", message: shown,
  });
  return html`<${Sheet} title=${`Message ${count(message.offset)}`} onClose=${onClose} onPrevious=${() => onMove(-1)} onNext=${() => onMove(1)}>
    ${death && html`<div class="notice warn"><${Icon} name="warn" /><div class="grow">A dead letter of <strong>${death.queue}</strong>${death.reason ? ` (${death.reason})` : ""}.</div></div>`}
    <div class="row">
      <button type="button" class="button" onClick=${republish}><${Icon} name="send" small />Publish a copy</button>
      <button type="button" class="button" disabled=${queues.length === 0} onClick=${() => openReplay(queue, queues, { start: String(message.offset), until: String(message.offset + 1), all: message.state !== "settled", dryRun: false, to: death?.queue ?? "" })}>
        <${Icon} name="replay" small />Replay</button>
      ${death && message.state === "ready" && html`<button type="button" class="button" onClick=${() => openReturnDeadLetters(queue, { start: String(message.offset), until: String(message.offset + 1), dryRun: false })}>
        <${Icon} name="inbox" small />Return to ${death.queue}</button>`}
    </div>
    <${Failure} error=${error} what="The whole body" />
    <${MessageView} message=${shown} />
  <//>`;
}
