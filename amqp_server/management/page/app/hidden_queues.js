// Queues that count in the totals of the server and that a user may not see. Pure functions.

import { count, plural } from "./format.js";

/**
 * How many queues the list leaves out because the user has no permission in their virtual hosts.
 *
 * Args:
 *   total: Queues of the whole server, from `object_totals`; undefined while nobody knows.
 *   shown: Queues of the list.
 */
export function hiddenQueues(total, shown) {
  return Math.max((total ?? 0) - shown, 0);
}

/** A sentence about those; empty if there are none. */
export function hiddenWords(hidden) {
  if (!hidden) return "";
  return `${plural(hidden, "queue")} ${hidden === 1 ? "is" : "are"} in virtual hosts where you have no permission. An administrator can give you one.`;
}

/** What an empty list of all queues says. */
export function noQueues(hidden) {
  if (hidden) return { title: `You may see none of ${hidden === 1 ? "the one queue" : `the ${count(hidden)} queues`}`, text: hiddenWords(hidden), icon: "queue" };
  return { title: "No queues yet", text: "A queue appears here as soon as a client declares it. You can also make one now.", icon: "queue" };
}

/** What the overview says when no queue of the list needs attention. */
export function nothingToDo(hidden, shown) {
  if (hidden && !shown) return { ...noQueues(hidden), title: "You see no queue" };
  return {
    icon: "good", title: hidden ? "No queue that you see needs you" : "No queue needs you",
    text: ["Every queue is empty, shrinks, or is stable.", hiddenWords(hidden)].filter(Boolean).join(" "),
  };
}
