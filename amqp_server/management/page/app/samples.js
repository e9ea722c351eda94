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

/**
 * Several series on one axis of time: `[times, values of the first, values of the second ...]`.
 *
 * A time that a series does not have is `undefined`, which a line passes over; null is a gap in it.
 */
export function aligned(series) {
  const times = [...new Set(series.flatMap((points) => points.map(([time]) => time)))].sort((a, b) => a - b);
  const columns = series.map((points) => {
    const values = new Map(points);
    return times.map((time) => values.get(time));
  });
  return [times, ...columns];
}

/** Values of `stacked` one above the other, the first one at the bottom. */
export function stacked(columns) {
  const sums = [];
  return columns.map((column) =>
    column.map((value, place) => {
      sums[place] = (sums[place] ?? 0) + (value ?? 0);
      return value === null || value === undefined ? value : sums[place];
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

/**
 * Points of a gauge for a chart: none before its first sample, where nothing is known, and null where none was taken.
 *
 * `details` may have `gaps`: pairs of times in ms between which the server took none.
 */
export function gaugeLine(details) {
  const measured = measuredSamples(details);
  const points = measured.map(({ timestamp, sample }) => [timestamp / 1000, sample]);
  return known(broken(points, (before, after) => [[(before[0] + after[0]) / 2, null], after]), details);
}

/** Points of a counter's rate for a chart: none before its first sample, and null where none was taken. */
export function rateLine(details) {
  const measured = measuredSamples(details);
  const sums = measured.map(({ timestamp, sample }) => [timestamp / 1000, sample]);
  const rates = ratePoints({ samples: measured });
  // What was counted during a gap is no rate of the moment at its end.
  return known(rates.length ? broken([[sums[0][0], undefined], ...rates], (_, after) => [[after[0], null]]).slice(1) : [], details);
}

/** Whether so long a time passed between two of these times that none was taken in between: true at the second one. */
export function gapsAfter(times, factor = 1.5) {
  const steps = times.slice(1).map((time, place) => time - times[place]);
  const usual = [...steps].sort((left, right) => left - right)[Math.floor((steps.length - 1) / 2)];
  return [false, ...steps.map((step) => steps.length > 1 && step > usual * factor)].slice(0, times.length);
}

/** Points in which `bridge(before, after)` stands for a point after a gap. */
function broken(points, bridge) {
  const isGap = gapsAfter(points.map(([time]) => time));
  return points.flatMap((point, place) => (isGap[place] ? bridge(points[place - 1], point) : [point]));
}

/** Samples in the order of time, without those that the server did not take: they only repeat the one before. */
function measuredSamples(details) {
  const gaps = details?.gaps ?? [];
  const isMeasured = ({ timestamp, sample }) => sample !== null && !gaps.some(([from, to]) => timestamp > from && timestamp < to);
  return ascending(details).filter(isMeasured);
}

function known(points, details) {
  const began = (details?.began ?? 0) / 1000;
  return points.filter(([time]) => time >= began);
}

function ascending(details) {
  return [...(details?.samples ?? [])].sort((left, right) => left.timestamp - right.timestamp);
}
