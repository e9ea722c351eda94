// How far a replay, a return or a move is, and the button that stops it.

import { html, useEffect, useState } from "../app/html.js";
import { apiPath } from "../app/addresses.js";
import { count, percent, plural } from "../app/format.js";
import { announceChange } from "../app/polling.js";
import { ask } from "../app/server.js";
import { isUnderWay, resultSentence, stateWords, transferCount, transferShare, transferWords } from "../app/transfers.js";
import { Icon } from "./icon.js";
import { Notice, toast } from "./notices.js";

const EVERY_MS = 500;

export async function stopTransfer(transfer) {
  try {
    await ask(apiPath("transfers", String(transfer.id)), { method: "DELETE" });
    toast(`${transferWords(transfer.kind).title} stopped: what it did is done, the rest is where it was.`);
  } catch (error) {
    // It may have ended meanwhile, which is no failure.
    if (error.status !== 404) toast(error.message, "bad");
  }
  announceChange();
}

/** The bar of one transfer with its numbers. */
export function TransferBar({ transfer }) {
  const share = transferShare(transfer);
  const words = transferWords(transfer.kind);
  const level = transfer.state === "failed" ? "bad" : transfer.state === "done" ? "good" : "";
  return html`<div class="transfer-bar">
    <div class=${`progress ${level}`} role="progressbar" aria-label=${words.title} aria-valuenow=${Math.round(share * 100)} aria-valuemin="0" aria-valuemax="100">
      <span style=${{ width: `${(share * 100).toFixed(1)}%` }}></span></div>
    <span class="num small">${count(transferCount(transfer))} ${words.counted}${isUnderWay(transfer) ? html` <span class="quiet">${percent(share)}</span>` : ""}</span>
  </div>`;
}

/**
 * In a dialog: what becomes of transfers that it has begun. They go on when the dialog or the page is closed.
 *
 * Args:
 *   kind: Of all of them.
 *   numbers: Their ids.
 */
export function BegunTransfers({ kind, numbers }) {
  const [all, setAll] = useState([]);
  const [error, setError] = useState(null);
  useEffect(() => {
    const own = new AbortController();
    let timer = 0;
    const round = async () => {
      try {
        const { items } = await ask("transfers", { signal: own.signal });
        const mine = items.filter(({ id }) => numbers.includes(id));
        setAll(mine);
        setError(null);
        if (mine.some(isUnderWay)) timer = setTimeout(round, EVERY_MS);
        else announceChange();
      } catch (refused) {
        if (own.signal.aborted) return;
        setError(refused);
        timer = setTimeout(round, EVERY_MS * 4);
      }
    };
    round();
    return () => {
      own.abort();
      clearTimeout(timer);
    };
  }, [numbers.join()]);
  const words = transferWords(kind);
  const open = all.filter(isUnderWay);
  const failed = all.filter(({ state }) => state === "failed");
  const done = all.reduce((sum, transfer) => sum + transferCount(transfer), 0);
  if (error) return html`<${Notice} level="warn" role="status">${error.message}<//>`;
  if (all.length === 0) return html`<div class="row" role="status"><span class="spinner"></span>It begins.</div>`;
  if (open.length === 0) {
    const [only] = all;
    if (all.length < numbers.length) {
      return html`<${Notice} level="good" role="status"><strong>All ${plural(numbers.length, words.title.toLowerCase())} have ended.</strong> <a href="#/transfers">Transfers</a> shows the last hundred.<//>`;
    }
    const sentence = all.length === 1 && only.state === "done" ? resultSentence(kind, only.progress) : `${words.done} ${plural(done, words.noun)}.`;
    return html`<${Notice} level=${failed.length ? "bad" : "good"} role="status"><strong>${sentence}</strong>
      ${failed.map((one) => html`<div key=${one.id} class="wrap">${all.length > 1 ? `${one.queue}: ` : ""}${one.reason}</div>`)}
      ${all.some(({ state }) => state === "stopped") ? " It was stopped; the rest is where it was." : ""}<//>`;
  }
  return html`<div class="stack" role="status">
    ${open.slice(0, 8).map((transfer) => html`<div key=${transfer.id} class="row between">
      <span class="grow"><span class="soft">${all.length > 1 ? `${transfer.queue}: ` : ""}${stateWords(transfer)}</span><${TransferBar} transfer=${transfer} /></span>
      <button type="button" class="button small" onClick=${() => stopTransfer(transfer)}><${Icon} name="close" small />Stop</button></div>`)}
    <p class="quiet small">${open.length > 8 ? `${plural(open.length - 8, "more")}. ` : ""}You can close this: the broker goes on, and <a href="#/transfers">Transfers</a> shows how far it is.</p>
  </div>`;
}
