// The view that the address names, and how a view changes its own address.

import { useEffect, useState } from "./html.js";
import { address, parseAddress } from "./addresses.js";
import { usePreference } from "./preferences.js";

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
function keepTyped(changes) {
  clearTimeout(typing);
  const { hash } = location;
  typing = setTimeout(() => location.hash === hash && replaceQuery(changes), TYPING_MS);
}

/**
 * The text of a list's filter: what is typed, kept in the address when the typing pauses. Another address of the same
 * view, by a link or the way back, brings its own.
 *
 * Returns [filter, onFilter].
 */
export function useTypedFilter(query) {
  const inAddress = query.filter ?? "";
  const [filter, setFilter] = useState(inAddress);
  useEffect(() => setFilter(inAddress), [inAddress]);
  const onFilter = (text) => {
    setFilter(text);
    keepTyped({ filter: text });
  };
  return [filter, onFilter];
}

/** The range of time of the charts: that of the address, else the one that was chosen last. */
export function useRange(query) {
  const [last, keep] = usePreference("range", "10m");
  const choose = (range) => {
    keep(range);
    replaceQuery({ range });
  };
  return [query.range || last, choose];
}

/** Change the parameters of the current address without a new entry in the history. */
export function replaceQuery(changes) {
  const { view, names, query } = parseAddress(location.hash);
  history.replaceState(null, "", address(view, names, { ...query, ...changes }));
  // Not `hashchange`: the view stays, and an open dialog with it.
  dispatchEvent(new Event("queryreplaced"));
}
