// A list of names and values.

import { html } from "../app/html.js";

/** rows: [name, value] pairs; a pair whose value is null or undefined is left out. */
export function Facts({ rows }) {
  return html`<dl class="facts">${rows.filter(([, value]) => value !== null && value !== undefined && value !== "")
    .map(([name, value]) => html`<dt key=${name}>${name}</dt><dd key=${`${name} value`}>${value}</dd>`)}</dl>`;
}

/** How much of something is used: a bar with its words. */
export function Meter({ label, used, total, format, level = null }) {
  const share = total > 0 ? Math.min(1, used / total) : 0;
  const colour = level ?? (share > 0.9 ? "bad" : share > 0.75 ? "warn" : "good");
  return html`<div class="meter-row">
    <div class="row between"><span class="soft">${label}</span><span class="num">${format(used)} <span class="quiet">of ${format(total)}</span></span></div>
    <div class="meter" role="img" aria-label=${`${label}: ${format(used)} of ${format(total)}`}>
      <span style=${{ width: `${(share * 100).toFixed(1)}%`, background: `var(--${colour})` }}></span></div>
  </div>`;
}

/** A table of headers or arguments; names and values are text. */
export function Entries({ entries, format = (value) => (typeof value === "object" ? JSON.stringify(value) : String(value)) }) {
  return html`<dl class="facts">${Object.entries(entries ?? {}).map(([name, value]) => html`
    <dt key=${name} class="mono wrap">${name}</dt><dd key=${`${name} value`} class="mono">${format(value)}</dd>`)}</dl>`;
}
