// The view that the address names, and how a view changes its own address.

import { useEffect, useState } from "./html.js";
import { address, parseAddress } from "./addresses.js";

export function useLocation() {
  const [place, setPlace] = useState(() => parseAddress(location.hash));
  useEffect(() => {
    const onChange = () => setPlace(parseAddress(location.hash));
    addEventListener("hashchange", onChange);
    addEventListener("queryreplaced", onChange);
    return () => {
      removeEventListener("hashchange", onChange);
      removeEventListener("queryreplaced", onChange);
    };
  }, []);
  return place;
}

/** Go to a view, as a link does. */
export function go(view, names = [], query = {}) {
  location.hash = address(view, names, query);
}

const TYPING_MS = 300;
let typing = 0;

/** Keep in the address what is typed in a filter, when the typing pauses. */
export function keepTyped(changes) {
  clearTimeout(typing);
  const { hash } = location;
  typing = setTimeout(() => location.hash === hash && replaceQuery(changes), TYPING_MS);
}

/** Change the parameters of the current address without a new entry in the history. */
export function replaceQuery(changes) {
  const { view, names, query } = parseAddress(location.hash);
  history.replaceState(null, "", address(view, names, { ...query, ...changes }));
  // Not `hashchange`: the view stays, and an open dialog with it.
  dispatchEvent(new Event("queryreplaced"));
}
