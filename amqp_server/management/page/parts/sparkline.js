// A trend small enough for a cell of a table. Without a label it is a decoration of the number beside it.

import { html } from "../app/html.js";

export function Sparkline({ values, label }) {
  if (values.length < 2) return html`<span class="quiet" aria-hidden="true">·</span>`;
  const low = Math.min(...values);
  const high = Math.max(...values);
  const span = high - low || 1;
  const points = values.map((value, place) => {
    const x = (place / (values.length - 1)) * 88;
    const y = high === low ? 11 : 20 - ((value - low) / span) * 18;
    return `${x.toFixed(1)} ${y.toFixed(1)}`;
  });
  const ends = values[values.length - 1] - values[0];
  const trend = Math.abs(ends) < Math.max(1, high * 0.02) ? "" : ends > 0 ? " up" : " down";
  return html`<svg class=${`spark${trend}`} viewBox="0 0 88 22" ...${label ? { role: "img", "aria-label": label } : { "aria-hidden": "true" }}>
    <path d=${`M${points.join("L")}`} />
  </svg>`;
}
