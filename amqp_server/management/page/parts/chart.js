// A chart over time. uPlot is fetched when the first one is shown, so the page itself starts without it.

import { html, useEffect, useRef, useState } from "../app/html.js";
import { aligned, stacked } from "../app/samples.js";
import { moment, rate, shortCount } from "../app/format.js";
import { usePreference } from "../app/preferences.js";

let library = null;

function loadLibrary() {
  library ??= import("../vendor/uplot.js").then((module) => {
    const link = document.createElement("link");
    link.rel = "stylesheet";
    link.href = new URL("../vendor/uplot.css", import.meta.url).href;
    return new Promise((done) => {
      link.onload = () => done(module.default);
      link.onerror = () => done(module.default);
      document.head.append(link);
    });
  });
  return library;
}

/**
 * Args:
 *   title: Heading of the chart.
 *   series: [{label, color: 1..6, points: [[seconds, value]..]}]; a series without points is left out, and a line has a gap where a value is null.
 *   format: Writes a value: `rate`, `count` or `bytes` of format.js.
 *   isStacked: Draw one above the other, as parts of a sum.
 *   actions: What stands at the right of the heading.
 */
export function Chart({ title, series, format = rate, isStacked = false, isShort = false, actions = null, group = "time" }) {
  const shown = series.filter(({ points }) => points.filter(([, value]) => value !== null).length > 1);
  const holder = useRef(null);
  const plot = useRef(null);
  const [cursor, setCursor] = useState(null);
  const [theme] = usePreference("theme", "system");
  const [isReady, setReady] = useState(false);
  const shape = `${shown.map(({ label }) => label).join("|")} ${isStacked} ${theme}`;
  const columns = aligned(shown.map(({ points }) => points));
  const data = isStacked ? [columns[0], ...stacked(columns.slice(1))] : columns;

  useEffect(() => {
    if (shown.length === 0) return undefined;
    let isGone = false;
    let observer = null;
    loadLibrary().then((UPlot) => {
      if (isGone || !holder.current) return;
      const node = holder.current;
      const size = () => ({ width: Math.max(120, node.clientWidth), height: node.clientHeight });
      plot.current = new UPlot(options(shown, format, isStacked, size(), group, (place) => setCursor(place)), data, node);
      observer = new ResizeObserver(() => plot.current?.setSize(size()));
      observer.observe(node);
      setReady(true);
    });
    return () => {
      isGone = true;
      observer?.disconnect();
      plot.current?.destroy();
      plot.current = null;
    };
  }, [shape]);

  useEffect(() => {
    plot.current?.setData(data);
  });

  const place = cursor !== null && cursor < columns[0].length ? cursor : columns[0].length - 1;
  const summary = shown.map(({ label, points }) => `${label} ${format(points[points.length - 1][1])}`).join(", ");
  return html`<section class="panel" aria-label=${title}>
    <div class="chart-head">
      <h2>${title}</h2>
      <div class="chart-legend" aria-hidden="true">
        ${shown.map(({ label, color }, index) => html`<span class="item" key=${label}>
          <span class=${`legend-dot c${color}`}></span>${label}<strong>${format(columns[index + 1][place])}</strong>
        </span>`)}
        ${cursor !== null && columns[0][place] ? html`<span class="item quiet">${moment(columns[0][place] * 1000)}</span>` : null}
      </div>
      ${actions}
    </div>
    <div class=${`chart${isShort ? " short" : ""}`} ref=${holder} role="img" aria-label=${`${title}. Now: ${summary || "no data yet"}`}>
      ${shown.length === 0 ? html`<div class="chart-empty">No history yet: the first samples come within ten seconds.</div>` : null}
      ${shown.length > 0 && !isReady ? html`<div class="chart-empty"><span class="spinner"></span></div>` : null}
    </div>
  </section>`;
}

function options(series, format, isStacked, size, group, onCursor) {
  const style = getComputedStyle(document.documentElement);
  const color = (name) => resolved(style.getPropertyValue(name));
  const axis = {
    stroke: color("--text-3"),
    font: "11px Inter, system-ui, sans-serif",
    grid: { stroke: color("--line"), width: 1 },
    ticks: { show: false },
  };
  return {
    ...size,
    padding: [8, 6, 0, 0],
    legend: { show: false },
    cursor: {
      y: false,
      drag: { x: false, y: false },
      points: { size: 7, width: 2 },
      sync: { key: group },
    },
    hooks: { setCursor: [(plot) => onCursor(plot.cursor.idx ?? null)] },
    scales: { y: { range: (_, low, high) => [0, high > 0 ? high * 1.12 : 1] } },
    axes: [
      { ...axis, grid: { show: false }, space: 90, size: 26,
        values: (_, times) => times.map((time) => moment(time * 1000).slice(11, times.length > 1 && times[1] - times[0] < 60 ? 19 : 16)) },
      { ...axis, size: 54, space: 34, values: (_, values) => values.map((value) => axisText(value, format)) },
    ],
    series: [
      {},
      ...series.map(({ label, color: number }, index) => ({
        label,
        stroke: color(`--series-${number}`),
        width: 1.75,
        points: { show: false },
        spanGaps: false,
        fill: isStacked || index === 0 ? `${color(`--series-${number}`)}1f` : undefined,
      })),
    ],
    bands: isStacked ? series.slice(1).map((_, index) => ({ series: [index + 2, index + 1] })) : [],
  };
}

function axisText(value, format) {
  // Whole numbers alone would name two lines of a small scale alike.
  if (Math.abs(value) < 10) return String(Math.round(value * 100) / 100);
  return format === rate ? shortCount(value) : format(value);
}

/** A canvas knows no `light-dark()`: the browser computes the colour on an element. */
function resolved(value) {
  const probe = document.createElement("span");
  probe.style.color = value;
  document.body.append(probe);
  const numbers = getComputedStyle(probe).color.match(/[\d.]+/g) ?? ["0", "0", "0"];
  probe.remove();
  return `#${numbers.slice(0, 3).map((number) => Math.round(Number(number)).toString(16).padStart(2, "0")).join("")}`;
}
