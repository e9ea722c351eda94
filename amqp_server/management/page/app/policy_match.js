// Which queues and exchanges a policy would apply to, shown before it is saved. Pure functions.

import { queueTypes } from "./policy_keys.js";

/** The pattern as a regular expression, or null while it is none. Patterns are searched, not anchored. */
export function policyPattern(pattern) {
  try {
    return new RegExp(pattern, "u");
  } catch {
    try {
      return new RegExp(pattern);
    } catch {
      return null;
    }
  }
}

/**
 * Return what the policy matches: {queues, exchanges}; null while the pattern is no regular expression.
 *
 * Args:
 *   policy: {vhost, pattern, "apply-to", definition}; it matches no queue of a type that cannot have one of its keys.
 *   queues, exchanges: Rows with `name`, `vhost` and `type`.
 */
export function policyMatches(policy, queues, exchanges) {
  const pattern = policyPattern(policy.pattern);
  if (pattern === null) return null;
  const kind = policy["apply-to"];
  const types = { classic_queues: "classic", quorum_queues: "quorum", streams: "stream" };
  const able = queueTypes(policy.definition ?? {});
  const found = (row) => row.vhost === policy.vhost && pattern.test(row.name);
  return {
    queues: kind === "exchanges" ? [] : queues.filter((row) =>
      found(row) && able.includes(row.type ?? "classic") && (!(kind in types) || (row.type ?? "classic") === types[kind])),
    exchanges: kind === "exchanges" || kind === "all"
      ? exchanges.filter((row) => row.name !== "" && found(row))
      : [],
  };
}
