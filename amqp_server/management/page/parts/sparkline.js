// A trend small enough for a cell of a table. Without a label it is a decoration of the number beside it.

import { html } from "../app/html.js";
import { sparkPath } from "../app/spark_path.js";

/** points: [time, value] in the order of time; null for a value breaks the line. */
export function Sparkline({ points, label }) {
  const values = points.map(([, value]) => value).filter((value) => value !== null);
  if (values.length < 2) return html`<span class="quiet" aria-hidden="true">·</span>`;
  const ends = values[values.length - 1] - values[0];
  const trend = Math.abs(ends) < Math.max(1, Math.max(...values) * 0.02) ? "" : ends > 0 ? " up" : " down";
  return html`<svg class=${`spark${trend}`} viewBox="0 0 88 22" ...${label ? { role: "img", "aria-label": label } : { "aria-hidden": "true" }}>
    <path d=${sparkPath(points)} />
  </svg>`;
}
