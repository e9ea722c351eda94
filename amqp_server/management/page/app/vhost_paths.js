// What the API is asked for when one virtual host is chosen. Pure functions.

import { apiPath, apiQuery } from "./addresses.js";

const OF_ALL = ["users", "vhosts", "health", "log"];
const NAMED_BY_VHOST = ["queues", "exchanges"];

/**
 * The path of a list: of one virtual host, or of all that the user may see.
 *
 * Args:
 *   list: "queues", "exchanges", "connections", "channels", "policies", "operator-policies", "shovels", "parameters/shovel",
 *     "exports", "transfers" or "audit".
 *   vhost: Virtual host; "" for all.
 *   parameters: Further ones of the query.
 */
export function listPath(list, vhost, parameters = {}) {
  if (["exports", "transfers", "audit"].includes(list)) return apiQuery(list, { ...parameters, vhost });
  if (vhost === "") return apiQuery(list, parameters);
  const isClients = list === "connections" || list === "channels";
  return apiQuery(isClients ? apiPath("vhosts", vhost, list) : `${list}/${apiPath(vhost)}`, parameters);
}

/** Whether a view shows the whole server, whichever virtual host is chosen. */
export function isOfAll({ view }) {
  return OF_ALL.includes(view);
}

/** Whether a view is a list of what virtual hosts have, so that its address names the chosen one. */
export function listHasVhosts({ view, names }) {
  return names.length === 0 && !OF_ALL.includes(view);
}

/**
 * The virtual host that a view wants and that is not there; null if it is.
 *
 * Args:
 *   place: Of the address.
 *   vhost: The chosen one, "" for all.
 *   names: Virtual hosts that the user may see; null while nobody knows.
 */
export function missingVhost(place, vhost, names) {
  if (names === null) return null;
  const wanted = NAMED_BY_VHOST.includes(place.view) && place.names.length > 1 ? place.names[0] : listHasVhosts(place) ? vhost : "";
  return wanted === "" || names.includes(wanted) ? null : wanted;
}

/** The virtual host that a form begins with: the chosen one, else the first one that there is. */
export function firstVhost(vhost, names) {
  return vhost !== "" && names.includes(vhost) ? vhost : names[0] ?? "/";
}
