// Every view has an address after `#`, which can be sent to a colleague. Pure functions.

/** "#/queues/%2F/a%2Fb/messages?from=1h" -> {view, names: ["/", "a/b", "messages"], query}. */
export function parseAddress(hash) {
  const text = hash.replace(/^#/, "");
  const mark = text.indexOf("?");
  const path = mark < 0 ? text : text.slice(0, mark);
  const segments = path.split("/").slice(path.startsWith("/") ? 1 : 0).map(decoded);
  const query = Object.fromEntries(new URLSearchParams(mark < 0 ? "" : text.slice(mark + 1)));
  return { view: segments[0] || "overview", names: segments.slice(1), query };
}

/** The address of a view: address("queues", ["/", "q"], {tab: "x"}); empty query values are left out. */
export function address(view, names = [], query = {}) {
  const path = [view, ...names].map(encodeURIComponent).join("/");
  const kept = Object.entries(query).filter(([, value]) => value !== "" && value !== null && value !== undefined);
  return `#/${path}${kept.length ? `?${new URLSearchParams(kept)}` : ""}`;
}

/** A path of the API with each name encoded: apiPath("queues", "/", "a b"). */
export function apiPath(...segments) {
  return segments.map(encodeURIComponent).join("/");
}

/** The same with parameters; those that are empty are left out. */
export function apiQuery(path, parameters) {
  const kept = Object.entries(parameters).filter(([, value]) => value !== "" && value !== null && value !== undefined);
  return kept.length ? `${path}?${new URLSearchParams(kept)}` : path;
}

function decoded(segment) {
  try {
    return decodeURIComponent(segment);
  } catch {
    return segment; // typed by hand: a lone "%"
  }
}
