// One word for the answers of several health checks. Pure functions.

/**
 * Say whether all is well; null while some checks have not answered and none has failed.
 *
 * Args:
 *   paths: Paths of all checks.
 *   results: For each path that has answered an object with `isFailed`.
 *
 * Returns {level, text}.
 */
export function checkSummary(paths, results) {
  const failed = paths.filter((path) => results[path]?.isFailed).length;
  if (failed) return { level: "bad", text: `${failed} failed` };
  return paths.every((path) => results[path]) ? { level: "good", text: "all well" } : null;
}
