// The list of all queues with the fields that lists need: one request for all views that show queues.

import { useEffect } from "./html.js";
import { keepDepths } from "./depth_history.js";
import { usePolled } from "./polling.js";
import { listPath } from "./vhost_paths.js";

const COLUMNS = [
  "name", "vhost", "type", "state", "durable", "auto_delete", "exclusive", "arguments", "policy",
  "effective_policy_definition", "messages", "messages_details.rate", "messages_ready",
  "messages_unacknowledged", "consumers", "consumer_capacity", "consumer_utilisation", "message_bytes",
  "message_stats.publish_details.rate", "message_stats.publish_refused_details.rate",
  "message_stats.deliver_get_details.rate",
  "message_stats.deliver_no_ack_details.rate", "message_stats.get_no_ack_details.rate",
  "message_stats.ack_details.rate", "message_stats.redeliver_details.rate", "idle_since",
  "log_bytes", "oldest_message_age",
];

/** The path of the list: of one virtual host, "" for all. */
export const queueListPath = (vhost) => `${listPath("queues", vhost)}?columns=${COLUMNS.join(",")}`;

/** As `usePolled`, with the rows of the queues of one virtual host, "" for all that the user may see. */
export function useQueues(vhost) {
  const queues = usePolled(queueListPath(vhost));
  useEffect(() => {
    if (queues.value) keepDepths(queues.value);
  }, [queues.value]);
  return queues;
}
