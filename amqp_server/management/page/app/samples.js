// Series of points from the samples that the API keeps for an hour and longer. Pure functions.

/** The ranges that a chart offers: seconds, the distance of samples the server keeps, and a label. */
export const RANGES = [
  { key: "10m", label: "10 min", age: 600, step: 5 },
  { key: "1h", label: "1 h", age: 3600, step: 60 },
  { key: "8h", label: "8 h", age: 28800, step: 600 },
  { key: "24h", label: "24 h", age: 86400, step: 1800 },
];

/** Parameters that ask for one range of rates and lengths. */
export function rangeParameters(key, kinds = ["msg_rates", "lengths"]) {
  const range = RANGES.find((one) => one.key === key) ?? RANGES[0];
  return Object.fromEntries(kinds.flatMap((kind) => [[`${kind}_age`, range.age], [`${kind}_incr`, range.step]]));
}

/** Points `[seconds, value]` in the order of time, of a gauge: `details` is `messages_details`. */
export function gaugePoints(details) {
  return ascending(details).map(({ timestamp, sample }) => [timestamp / 1000, sample]);
}

/** Points `[seconds, value per second]` of a counter, whose samples are sums. */
export function ratePoints(details) {
  const samples = ascending(details);
  const points = [];
  for (let place = 1; place < samples.length; place += 1) {
    const seconds = (samples[place].timestamp - samples[place - 1].timestamp) / 1000;
    // A sum that falls belongs to a server that has started again.
    const grown = Math.max(0, samples[place].sample - samples[place - 1].sample);
    if (seconds > 0) points.push([samples[place].timestamp / 1000, grown / seconds]);
  }
  return points;
}

/** Several series on one axis of time: `[times, values of the first, values of the second ...]`. */
export function aligned(series) {
  const times = [...new Set(series.flatMap((points) => points.map(([time]) => time)))].sort((a, b) => a - b);
  const columns = series.map((points) => {
    const values = new Map(points);
    return times.map((time) => values.get(time) ?? null);
  });
  return [times, ...columns];
}

/** Values of `stacked` one above the other, the first one at the bottom. */
export function stacked(columns) {
  const sums = [];
  return columns.map((column) =>
    column.map((value, place) => {
      sums[place] = (sums[place] ?? 0) + (value ?? 0);
      return value === null ? null : sums[place];
    }));
}

/** Series without the points before a time: nothing is known of a server before it began. */
export function since(series, beganSeconds) {
  if (!beganSeconds) return series;
  return series.map((one) => ({ ...one, points: one.points.filter(([time]) => time >= beganSeconds) }));
}

/** When a node began, in Unix seconds; null while nobody knows. The clocks of browser and server may differ. */
export function beganSeconds(node, details) {
  const newest = Math.max(...(details?.samples ?? []).map(({ timestamp }) => timestamp));
  return node?.uptime === undefined || !Number.isFinite(newest) ? null : (newest - node.uptime) / 1000;
}

/** Points of a gauge for a chart of one object: none before its first sample, where nothing is known. */
export function gaugeLine(details) {
  return known(gaugePoints(details), details);
}

/** Points of a counter's rate for a chart of one object: none before its first sample. */
export function rateLine(details) {
  return known(ratePoints(details), details);
}

function known(points, details) {
  const began = (details?.began ?? 0) / 1000;
  return points.filter(([time]) => time >= began);
}

function ascending(details) {
  return [...(details?.samples ?? [])].sort((left, right) => left.timestamp - right.timestamp);
}
