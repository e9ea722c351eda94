// The one virtual host that all views show, or all of them: in the address, and kept in the browser.

import { createContext, useContext, useEffect, useRef } from "./html.js";
import { go, replaceQuery } from "./location.js";
import { usePolled } from "./polling.js";
import { usePreference } from "./preferences.js";
import { isOfAll, listHasVhosts, missingVhost } from "./vhost_paths.js";

const EVERY_MS = 15_000;

/** {vhost, names, choose, missing, isOfAll}; `vhost` is "" for all of them. */
export const ChosenVhost = createContext({ vhost: "", names: null, choose: () => {}, missing: null, isOfAll: false });

export function useVhost() {
  return useContext(ChosenVhost);
}

/**
 * What the address says, else what was chosen last; a link that names a virtual host chooses it.
 *
 * Returns the value of `ChosenVhost`: `names` are those that the user may see, null while nobody knows; `missing` is the
 * one that the address wants and that is not among them.
 */
export function useVhostOfAddress(place) {
  const [kept, keep] = usePreference("vhost", "");
  const hosts = usePolled("vhosts?columns=name", EVERY_MS);
  const names = hosts.value?.map(({ name }) => name) ?? null;
  const inAddress = place.query.vhost;
  const vhost = inAddress ?? kept;
  useEffect(() => {
    if (inAddress !== undefined && inAddress !== kept) keep(inAddress);
    // So that the address can be sent to a colleague, who then sees the same.
    else if (inAddress === undefined && kept !== "" && listHasVhosts(place)) replaceQuery({ vhost: kept });
  }, [place, inAddress, kept]);
  const missing = missingVhost(place, vhost, names);
  // It may have been made a moment ago, by somebody else.
  const asked = useRef(null);
  useEffect(() => {
    if (missing !== null && asked.current !== missing) hosts.reload();
    asked.current = missing;
  }, [missing]);
  const choose = (next) => {
    keep(next);
    if (place.names.length === 0) replaceQuery({ vhost: next });
    // An object of another virtual host is none that was chosen: its list is.
    else if (place.names.length > 1 && next !== "" && next !== place.names[0]) go(place.view, [], { vhost: next });
  };
  return { vhost, names, choose, missing, isOfAll: isOfAll(place) };
}
