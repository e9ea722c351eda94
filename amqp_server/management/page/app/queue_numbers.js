// The numbers of one queue of the API under short names, whatever the server leaves out. Pure functions.

/** A rate per second from a row's `message_stats`; 0 while nothing happened. */
export function statRate(row, name) {
  return row.message_stats?.[`${name}_details`]?.rate ?? 0;
}

export function queueNumbers(queue) {
  const consumers = queue.consumers ?? 0;
  return {
    name: queue.name,
    type: queue.type ?? "classic",
    isStream: queue.type === "stream",
    state: queue.state ?? "running",
    ready: queue.messages_ready ?? 0,
    unacked: queue.messages_unacknowledged ?? 0,
    total: queue.messages ?? 0,
    consumers,
    utilisation: queue.consumer_utilisation ?? queue.consumer_capacity ?? null,
    // Message rates of a queue count what came in by any way; of deliveries, `deliver_get` has all ways out.
    in: statRate(queue, "publish"),
    // What it refused because it is full: `in` counts what it took only.
    refused: statRate(queue, "publish_refused"),
    out: statRate(queue, "deliver_get"),
    acked: statRate(queue, "ack"),
    autoAcked: statRate(queue, "deliver_no_ack") + statRate(queue, "get_no_ack"),
    redelivered: statRate(queue, "redeliver"),
    growth: queue.messages_details?.rate ?? 0,
    oldestSeconds: queue.oldest_message_age ?? null,
    lengthMax: lengthLimit(queue),
    refusesWhenFull: overflow(queue).startsWith("reject-publish"),
    isSingleActive: queue.arguments?.["x-single-active-consumer"] === true,
  };
}

/** The limit of messages: the lower one of argument and policies; null without any. */
export function lengthLimit(queue) {
  const limits = [queue.arguments?.["x-max-length"], queue.effective_policy_definition?.["max-length"]]
    .filter((limit) => Number.isFinite(limit) && limit >= 0);
  return limits.length ? Math.min(...limits) : null;
}

function overflow(queue) {
  return queue.effective_policy_definition?.overflow ?? queue.arguments?.["x-overflow"] ?? "drop-head";
}
