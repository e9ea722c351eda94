// Which queues and exchanges a policy would apply to, shown before it is saved. Pure functions.

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
 *   policy: {vhost, pattern, "apply-to"}.
 *   queues, exchanges: Rows with `name`, `vhost` and `type`.
 */
export function policyMatches(policy, queues, exchanges) {
  const pattern = policyPattern(policy.pattern);
  if (pattern === null) return null;
  const kind = policy["apply-to"];
  const types = { classic_queues: "classic", quorum_queues: "quorum", streams: "stream" };
  const found = (row) => row.vhost === policy.vhost && pattern.test(row.name);
  return {
    queues: kind === "exchanges" ? [] : queues.filter((row) =>
      found(row) && (!(kind in types) || (row.type ?? "classic") === types[kind])),
    exchanges: kind === "exchanges" || kind === "all"
      ? exchanges.filter((row) => row.name !== "" && found(row))
      : [],
  };
}
