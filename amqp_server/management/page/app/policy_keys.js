// The keys of policies: what each one does, and which values it takes. Pure functions.
//
// The server decides (`amqp_server/broker/policies/keys.py` and `new_values.py`); a test compares both.

import { bytes, count, duration } from "./format.js";

const TEN_YEARS_MS = 315_360_000_000;
const EVERY = ["classic", "quorum", "stream"];
const NO_STREAM = ["classic", "quorum"];
const QUORUM = ["quorum"];
const STREAM = ["stream"];

export const POLICY_GROUPS = ["Lengths and lifetimes", "Dead letters", "Consumers", "Streams", "Log and retention", "Exchanges", "Kept without effect"];
const [LENGTHS, DEAD_LETTERS, CONSUMERS, STREAMS, LOG, EXCHANGES, KEPT] = POLICY_GROUPS;

/**
 * Keys by name, in the order of the form.
 *
 * group: One of `POLICY_GROUPS`. title, help: Its name in words, and a sentence.
 * kind: "integer" (with `unit`, `lowest`, `highest`), "choice" (with `choices`), "text", "exchange", "truth", "age" or "json".
 * types: Types of queue that can have it. isOperators: Whether an operator policy may hold it.
 */
export const POLICY_KEYS = {
  "max-length": integer(LENGTHS, "Maximum length", "A queue has at most this number of ready messages. The oldest ones leave unless the overflow says otherwise.", { unit: "messages", types: NO_STREAM, isOperators: true }),
  "max-length-bytes": integer(LENGTHS, "Maximum size", "Ready messages of a queue have at most this size. Of a stream: the size of its files, which go as a whole, the oldest first.", { unit: "bytes", isOperators: true }),
  overflow: choice(LENGTHS, "When the queue is full", "Drop the oldest message, or refuse the new one; the last choice also makes the refused one a dead letter.", ["drop-head", "reject-publish", "reject-publish-dlx"], { types: NO_STREAM, isOperators: true }),
  "message-ttl": integer(LENGTHS, "Lifetime of messages", "A message that has waited so long expires. It counts for messages that are published from now on.", { unit: "ms", types: NO_STREAM, isOperators: true }),
  expires: integer(LENGTHS, "Lifetime of the unused queue", "A queue without consumers, declares and gets for so long is deleted with its messages.", { unit: "ms", lowest: 1, highest: TEN_YEARS_MS, types: NO_STREAM, isOperators: true }),
  "dead-letter-exchange": key("exchange", DEAD_LETTERS, "Dead-letter exchange", "Gets messages that are rejected, expire or exceed a limit. Empty: the default exchange, which routes by the name of a queue.", { types: NO_STREAM }),
  "dead-letter-routing-key": key("text", DEAD_LETTERS, "Dead-letter routing key", "Routing key of dead letters. Without it they keep their own.", { types: NO_STREAM }),
  "dead-letter-strategy": choice(DEAD_LETTERS, "Dead-letter strategy", "Whether dead letters of quorum queues wait for the confirm of the queues that they go to.", ["at-most-once", "at-least-once"], { types: QUORUM }),
  "delivery-limit": integer(DEAD_LETTERS, "Delivery limit", "A message of a quorum queue that came back more often is a dead letter, or is lost without a dead-letter exchange. Negative: no limit.", { unit: "returns", lowest: -Number.MAX_SAFE_INTEGER, types: QUORUM, isOperators: true }),
  "consumer-timeout": integer(CONSUMERS, "Consumer timeout", "The channel of a consumer that does not answer a delivery for so long is closed. 0: no limit. It counts for consumers that begin from now on.", { unit: "ms", highest: TEN_YEARS_MS }),
  "max-age": key("age", STREAMS, "Maximum age", "A stream keeps its messages so long. A number and a unit: Y, M (30 days), D, h, m or s.", { types: STREAM }),
  "stream-max-segment-size-bytes": integer(STREAMS, "Segment size of streams", "A file of the log of a stream is complete at this size. Retention removes whole files.", { unit: "bytes", highest: 3_000_000_000, types: STREAM }),
  durability: choice(LOG, "Durability", "What a confirm of a persistent message means: it is on the disk, the kernel has it, or the broker has it.", ["fsync", "write", "none"], { isOperators: true }),
  compression: choice(LOG, "Compression", "How the log is compressed on the disk.", ["none", "zstd"], { isOperators: true }),
  "retain-for": integer(LOG, "Keep settled messages for", "Acknowledged messages stay so long in the log: for exports, and to be replayed.", { unit: "ms", types: NO_STREAM, isOperators: true }),
  "retain-bytes": integer(LOG, "Keep settled messages up to", "Size of the acknowledged messages that stay in the log.", { unit: "bytes", types: NO_STREAM, isOperators: true }),
  "retain-segments-min": integer(LOG, "Files to keep", "The newest files of the log, which stay in any case.", { unit: "files", lowest: 1, types: NO_STREAM, isOperators: true }),
  "protect-unconsumed": key("truth", LOG, "Protect what is unconsumed", "Yes: a file with a message that is not settled stays, whatever the two values above say.", { types: NO_STREAM, isOperators: true }),
  "force-remove-after": integer(LOG, "Remove files after", "A file whose last message is so old is removed, settled or not: messages in it become dead letters or are dropped. 0: never.", { unit: "ms", types: NO_STREAM, isOperators: true }),
  "segment-max-bytes": integer(LOG, "Segment size", "A file of the log is complete at this size.", { unit: "bytes", lowest: 65_536, highest: 2_147_483_648, isOperators: true }),
  "segment-max-age": integer(LOG, "Segment age", "A file of the log is complete so long after its first message. 0: never.", { unit: "ms", highest: TEN_YEARS_MS, isOperators: true }),
  "alternate-exchange": key("exchange", EXCHANGES, "Alternate exchange", "Gets messages for which no queue is bound to the exchange."),
  "max-in-memory-length": kept(integer, "Messages in memory", { unit: "messages", types: QUORUM, isOperators: true }),
  "max-in-memory-bytes": kept(integer, "Bytes in memory", { unit: "bytes", types: QUORUM, isOperators: true }),
  "stream-filter-size-bytes": kept(integer, "Size of stream filters", { unit: "bytes", lowest: 16, highest: 255, types: STREAM }),
  "queue-mode": kept(choice, "Queue mode", ["default", "lazy"]),
  "queue-version": kept(integer, "Queue version", { lowest: 1, highest: 2, isOperators: true }),
  "queue-leader-locator": kept(choice, "Place of leaders", ["client-local", "balanced", "random", "least-leaders"]),
  "queue-master-locator": kept(choice, "Place of masters", ["min-masters", "client-local", "random"]),
  "initial-cluster-size": kept(integer, "First size of the cluster", { unit: "nodes" }),
  "target-group-size": kept(integer, "Wanted number of replicas", { unit: "nodes" }),
  "ha-mode": kept(choice, "Mirrors", ["all", "exactly", "nodes"]),
  "ha-params": kept(json, "Which mirrors"),
  "ha-sync-mode": kept(choice, "Synchronisation of mirrors", ["manual", "automatic"]),
  "ha-sync-batch-size": kept(integer, "Batches of mirrors", { unit: "messages", lowest: 1 }),
  "ha-promote-on-shutdown": kept(choice, "Promotion at a shutdown", ["when-synced", "always"]),
  "ha-promote-on-failure": kept(choice, "Promotion after a failure", ["always", "when-synced"]),
  "federation-upstream": kept(json, "Federation upstream"),
  "federation-upstream-set": kept(json, "Set of federation upstreams"),
  "federation-upstream-pattern": kept(json, "Pattern of federation upstreams"),
};

function key(kind, group, title, help, { types = EVERY, isOperators = false, ...rest } = {}) {
  return { kind, group, title, help, types, isOperators, ...rest };
}

function integer(group, title, help, rest = {}) {
  return key("integer", group, title, help, { unit: "", lowest: 0, highest: Number.MAX_SAFE_INTEGER, ...rest });
}

function choice(group, title, help, choices, rest = {}) {
  return key("choice", group, title, help, { choices, ...rest });
}

function json(group, title, help, rest = {}) {
  return key("json", group, title, help, rest);
}

function kept(make, title, ...rest) {
  return make(KEPT, title, "Kept for tools of RabbitMQ; there is one log on one machine here.", ...rest);
}

/** The key of this name; undefined for a name that this page does not know. */
export function policyKey(name) {
  return Object.hasOwn(POLICY_KEYS, name) ? POLICY_KEYS[name] : undefined;
}

/** The value that a key begins with in the form; a number and a text have to be written. */
export function firstValue(name) {
  const { kind, choices } = POLICY_KEYS[name];
  if (kind === "choice") return choices[0];
  return kind === "truth" ? true : "";
}

/** What an input's text means for a key; a text that is no number stays a text, which is then a mistake. */
export function valueOf(name, text) {
  const { kind } = POLICY_KEYS[name];
  if (kind === "integer") return text.trim() === "" || Number.isNaN(Number(text)) ? text : Number(text);
  if (kind !== "json") return text;
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}

/** A value as the text of its input. */
export function textOf(name, value) {
  return typeof value === "string" ? value : JSON.stringify(value);
}

/** A number as people read it: 86400000 ms is "1 d". Empty where that says no more than the number. */
export function valueHint(name, value) {
  const found = policyKey(name);
  if (found?.kind !== "integer" || !Number.isSafeInteger(value) || value < 0) return "";
  if (found.unit === "ms") return value >= 1000 ? duration(value / 1000) : "";
  if (found.unit === "bytes") return value >= 1024 ? bytes(value) : "";
  return value >= 1000 ? count(value) : "";
}

/**
 * What is wrong with the value of one key, as a sentence; null if the server takes it.
 *
 * A key that the page does not know is no mistake: a newer server may know it.
 */
export function valueMistake(name, value, isOperator = false) {
  const found = policyKey(name);
  if (!found) return null;
  if (isOperator && !found.isOperators) return "An operator policy cannot have this.";
  switch (found.kind) {
    case "integer": return integerMistake(found, value);
    case "choice": return found.choices.includes(value) ? null : `Choose one of ${found.choices.join(", ")}.`;
    case "truth": return typeof value === "boolean" ? null : "Choose yes or no.";
    case "age": return /^(?=0*[1-9])[0-9]{1,100}[YMDhms]$/.test(value) && typeof value === "string" ? null : "Write a number above 0 and a unit, such as 7D or 12h.";
    case "json": return null;
    default: return typeof value === "string" ? null : "Write a text.";
  }
}

function integerMistake({ lowest, highest }, value) {
  if (typeof value !== "number" || !Number.isInteger(value)) return "Write a whole number.";
  if (value < lowest) return `At least ${count(lowest)}.`;
  return value > highest ? `At most ${count(highest)}${highest === Number.MAX_SAFE_INTEGER ? " here; a command line takes more" : ""}.` : null;
}

/** Mistakes of a definition by key; of mirrors also what does not go together. */
export function definitionMistakes(definition, isOperator = false) {
  const found = {};
  for (const [name, value] of Object.entries(definition)) {
    const mistake = valueMistake(name, value, isOperator) ?? mirrorMistake(name, definition);
    if (mistake) found[name] = mistake;
  }
  return found;
}

function mirrorMistake(name, definition) {
  if (!name.startsWith("ha-") || !policyKey(name)) return null;
  const { "ha-mode": mode, "ha-params": params } = definition;
  if (mode === undefined) return "It needs ha-mode, too.";
  if (name === "ha-mode" && mode !== "all" && params === undefined) return "It needs ha-params, too.";
  if (name !== "ha-params") return null;
  if (mode === "all") return "With ha-mode all there are no ha-params.";
  if (mode === "exactly") return Number.isSafeInteger(params) && params > 0 ? null : "With ha-mode exactly, write a number above 0.";
  return Array.isArray(params) && params.length && params.every((one) => typeof one === "string") ? null : 'With ha-mode nodes, write a list such as ["rabbit@a"].';
}

/** Types of queue that can have every key of a definition: a policy applies to no queue of another type. */
export function queueTypes(definition) {
  return EVERY.filter((type) => Object.keys(definition).every((name) => policyKey(name)?.types.includes(type) ?? true));
}

const APPLIES = { classic_queues: ["classic"], quorum_queues: ["quorum"], streams: ["stream"], queues: EVERY, all: EVERY };

/** What keeps a policy from working as it seems to; null when nothing does. `applyTo`: what it applies to. */
export function applyAdvice(definition, applyTo) {
  const names = Object.keys(definition);
  if (names.includes("alternate-exchange") && applyTo !== "exchanges" && applyTo !== "all") {
    return { level: "warn", text: "alternate-exchange is a setting of exchanges: let the policy apply to exchanges, or to all." };
  }
  const wanted = APPLIES[applyTo];
  if (!wanted || names.length === 0) return null;
  const types = queueTypes(definition).filter((type) => wanted.includes(type));
  if (types.length === wanted.length) return null;
  const causes = names.filter((name) => policyKey(name) && wanted.some((type) => !policyKey(name).types.includes(type)));
  const why = `because ${causes.join(" and ")} ${causes.length === 1 ? "is no setting" : "are no settings"} of the others`;
  if (types.length === 0) return { level: "warn", text: `No type of queue can have all of these settings, so the policy applies to no queue (${causes.join(", ")}).` };
  return { level: "info", text: `It applies to ${types.map((type) => (type === "stream" ? "streams" : `${type} queues`)).join(" and ")} only, ${why}.` };
}

/** The names of a group that a definition has, in the order of the form. */
export function namesOfGroup(group, definition) {
  return Object.keys(POLICY_KEYS).filter((name) => POLICY_KEYS[name].group === group && Object.hasOwn(definition, name));
}
