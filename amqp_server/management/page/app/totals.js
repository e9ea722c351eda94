// How many queues, exchanges, connections and channels there are: of the server, or of one virtual host.

import { usePolled } from "./polling.js";
import { listPath } from "./vhost_paths.js";

const EVERY_MS = 10_000;
const KINDS = ["queues", "exchanges", "connections", "channels"];

/**
 * Numbers by kind; null while nobody knows.
 *
 * Args:
 *   vhost: Virtual host; "" for the whole server, whose numbers are `all`.
 */
export function useTotals(vhost, all) {
  // A page of one row says how many rows there are, however many.
  const answers = KINDS.map((kind) => usePolled(vhost === "" ? null : listPath(kind, vhost, { page: 1, page_size: 1, columns: "name" }), EVERY_MS));
  if (vhost === "") return all ?? null;
  if (answers.some(({ value }) => value === undefined)) return null;
  return Object.fromEntries(KINDS.map((kind, place) => [kind, answers[place].value.total_count]));
}
