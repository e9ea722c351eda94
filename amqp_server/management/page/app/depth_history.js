// The last depths of every queue that the page has seen, for the small trends in the list.

import { gapsAfter } from "./samples.js";

const POINTS_MAX = 40;
// The page asks less often with long lists, and a request may take its time.
const GAP_FACTOR = 2.5;
const history = new Map();
let lastRows = null;

/** Keep the depths of a fresh list of queues; the same list twice counts once. `millis`: when it came. */
export function keepDepths(queues, millis = Date.now()) {
  if (queues === lastRows) return;
  lastRows = queues;
  const names = new Set();
  for (const queue of queues) {
    const name = `${queue.vhost}\n${queue.name}`;
    names.add(name);
    const points = history.get(name) ?? [];
    points.push([millis, queue.messages ?? 0]);
    if (points.length > POINTS_MAX) points.shift();
    history.set(name, points);
  }
  for (const name of history.keys()) if (!names.has(name)) history.delete(name);
}

/** Points `[ms, depth]` of a queue; `[ms, null]` stands where the page did not look, or the server did not answer. */
export function depthsOf(queue) {
  const points = history.get(`${queue.vhost}\n${queue.name}`) ?? [];
  const isGap = gapsAfter(points.map(([millis]) => millis), GAP_FACTOR);
  return points.flatMap((point, place) => (isGap[place] ? [[point[0], null], point] : [point]));
}
