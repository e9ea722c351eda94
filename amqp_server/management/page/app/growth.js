// Since when a queue grows, from the past depths that the server keeps. Pure functions.

import { clock, count, inWords, moment, shortCount } from "./format.js";

const DIP_SHARE = 0.1;
const DAY_SECONDS = 86400;

/**
 * Find the begin of the present growth: going back, the lowest depth that no higher one stands before.
 *
 * Args:
 *   points: [seconds, depth] in the order of time.
 *
 * Returns {since, grown, isOlder}, or null when it does not grow. A dip of a tenth of what has grown does not end it;
 * `isOlder`: it may have begun before: the points begin there, or are all alike up to there, as they are where the
 * server knows nothing.
 */
export function growthOf(points) {
  if (points.length < 3) return null;
  const [, last] = points[points.length - 1];
  let place = points.length - 1;
  let low = last;
  for (let at = points.length - 2; at >= 0; at -= 1) {
    const [, depth] = points[at];
    if (depth < low) {
      low = depth;
      place = at;
    } else if (depth > low + Math.max(1, (last - low) * DIP_SHARE)) {
      break;
    }
  }
  const grown = last - low;
  if (grown < Math.max(10, last * 0.02)) return null;
  const isOlder = low > 0 && points.slice(0, place).every(([, depth]) => depth === low);
  return { since: points[place][0], grown, isOlder };
}

/** The growth in words: "Since 10:53:10, for 4 minutes: 30k more messages." */
export function growthWords(growth, nowSeconds = Date.now() / 1000) {
  if (!growth) return "";
  const { since, grown, isOlder } = growth;
  const seconds = Math.max(1, nowSeconds - since);
  const when = seconds > DAY_SECONDS / 2 ? moment(since * 1000) : clock(since * 1000);
  return `Since ${when}${isOlder ? " or before" : ""}, for ${isOlder ? "at least " : ""}${inWords(seconds)}: ${grown < 10_000 ? count(grown) : shortCount(grown)} more messages.`;
}

/** The same for a place with little room: "since 10:53". */
export function growthBrief(growth, nowSeconds = Date.now() / 1000) {
  if (!growth) return "";
  const seconds = Math.max(1, nowSeconds - growth.since);
  const when = seconds > DAY_SECONDS / 2 ? moment(growth.since * 1000).slice(0, 16) : clock(growth.since * 1000).slice(0, 5);
  return `since ${when}${growth.isOlder ? " or before" : ""}`;
}
