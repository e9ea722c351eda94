// Which alarms are on, from the health check. Pure functions.

/**
 * Args:
 *   health: {value, error} of `health/checks/alarms`; a check that fails answers 503.
 *
 * Returns names such as "memory" and "disk"; null when the server does not answer.
 */
export function alarmNames({ value, error }) {
  if (error?.status === 503) {
    const names = (error.details?.alarms ?? []).map(({ resource }) => resource);
    return names.length ? [...new Set(names)] : ["memory or disk"];
  }
  if (error && !value) return null;
  if (error && error.status === 0) return null;
  return [];
}
