// The last depths of every queue that the page has seen, for the small trends in the list.

const POINTS_MAX = 40;
const history = new Map();
let lastRows = null;

/** Keep the depths of a fresh list of queues; the same list twice counts once. */
export function keepDepths(queues) {
  if (queues === lastRows) return;
  lastRows = queues;
  const names = new Set();
  for (const queue of queues) {
    const name = `${queue.vhost}\n${queue.name}`;
    names.add(name);
    const points = history.get(name);
    if (points) {
      points.push(queue.messages ?? 0);
      if (points.length > POINTS_MAX) points.shift();
    } else {
      history.set(name, [queue.messages ?? 0]);
    }
  }
  for (const name of history.keys()) if (!names.has(name)) history.delete(name);
}

export function depthsOf(queue) {
  return history.get(`${queue.vhost}\n${queue.name}`) ?? [];
}
