// Requests to the server that the page came from, and the session that they run in.

/** What the server refused, with its own words. */
export class Refused extends Error {
  /**
   * Args:
   *   status: HTTP status; 0 when the server cannot be reached.
   *   reason: The server's text.
   *
   * `details` is the whole JSON of the answer.
   */
  constructor(status, reason) {
    super(reason);
    this.name = "Refused";
    this.status = status;
    this.details = {};
  }
}

// Relative to the page: it also works below a prefix of a reverse proxy.
export const ORIGIN = new URL(".", document.baseURI).href.replace(/\/$/, "");

let csrfToken = "";
let onLoggedOut = () => {};

/** Call back when the session has ended and the page needs a login again. */
export function whenLoggedOut(callback) {
  onLoggedOut = callback;
}

// The session's cookie is not for scripts: this only says that there may be one.
const HINT = "has-session";

/** Return the session's {name, tags}, or null without one. */
export async function currentSession() {
  if (localStorage.getItem(HINT) === null) return null;
  const answer = await fetch(`${ORIGIN}/session`, { headers: { accept: "application/json" } });
  if (answer.ok) return kept(await answer.json());
  localStorage.removeItem(HINT);
  return null;
}

/** Log in; raises Refused with the server's reason. */
export async function logIn(username, password) {
  const answer = await reached(fetch(`${ORIGIN}/session`, {
    method: "POST",
    // No token yet; but the header says that no page of another site asks, whatever a proxy does to Host.
    headers: { "content-type": "application/json", "x-csrf-token": "" },
    body: JSON.stringify({ username, password }),
  }));
  if (!answer.ok) throw await refusal(answer);
  return kept(await answer.json());
}

export async function logOut() {
  await fetch(`${ORIGIN}/session`, { method: "DELETE", headers: { "x-csrf-token": csrfToken } });
  localStorage.removeItem(HINT);
  onLoggedOut();
}

/**
 * Ask the API; return the JSON of its answer, null for an empty one.
 *
 * Args:
 *   path: Below `/api/`, already encoded.
 *   request: {method, body, signal, headers}; the body is sent as JSON.
 */
export async function ask(path, { method = "GET", body, signal, headers = {} } = {}) {
  const answer = await reached(fetch(`${ORIGIN}/api/${path}`, {
    method,
    signal,
    headers: {
      accept: "application/json",
      ...(body === undefined ? {} : { "content-type": "application/json" }),
      ...(method === "GET" ? {} : { "x-csrf-token": csrfToken }),
      ...headers,
    },
    body: body === undefined ? undefined : JSON.stringify(body),
  }));
  if (!answer.ok) throw await refusal(answer, true);
  const text = await answer.text();
  return text === "" ? null : JSON.parse(text);
}

/** Lines of a stream of server-sent events, until the signal aborts: `onEvent({event, data})`. */
export async function follow(path, onEvent, signal) {
  const answer = await reached(fetch(`${ORIGIN}/api/${path}`, { signal, headers: { accept: "text/event-stream" } }));
  if (!answer.ok) throw await refusal(answer, true);
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    rest += value.replaceAll("\r\n", "\n");
    const blocks = rest.split("\n\n");
    rest = blocks.pop();
    for (const block of blocks) {
      const event = sentEvent(block);
      if (event) onEvent(event);
    }
  }
}

function sentEvent(block) {
  let event = "message";
  const data = [];
  for (const line of block.split("\n")) {
    if (line.startsWith("event:")) event = line.slice(6).trim();
    if (line.startsWith("data:")) data.push(line.slice(5).replace(/^ /, ""));
  }
  return data.length ? { event, data: data.join("\n") } : null;
}

async function reached(request) {
  try {
    return await request;
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Refused(0, "The server cannot be reached.");
  }
}

async function refusal(answer, isInSession = false) {
  let told = {};
  try {
    told = await answer.json();
  } catch {
    // an empty answer, or none of the API's
  }
  const reason = typeof told.reason === "string" ? told.reason : told.reason ? JSON.stringify(told.reason) : "";
  // 401 is also what a user without the right gets: only the session itself tells the two apart.
  if (answer.status === 401 && isInSession && !(await currentSession())) onLoggedOut();
  const refused = new Refused(answer.status, reason || told.error || `The server answered ${answer.status}.`);
  refused.details = told;
  return refused;
}

function kept(session) {
  csrfToken = session.csrf_token;
  localStorage.setItem(HINT, "yes");
  return { name: session.name, tags: asList(session.tags) };
}

function asList(tags) {
  return Array.isArray(tags) ? tags : String(tags ?? "").split(",").map((tag) => tag.trim()).filter(Boolean);
}
