// The same action on a command line, to be copied into a script or a runbook. Pure functions.

/** A word for a POSIX shell; only plain words stay bare. */
export function shellWord(text) {
  const word = String(text);
  return /^[A-Za-z0-9_@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`;
}

/** A command with its arguments, quoted. */
export function commandLine(...words) {
  return words.filter((word) => word !== null && word !== undefined).map(shellWord).join(" ");
}

/**
 * The request as a curl command. The password is asked for by curl, so it gets into no history.
 *
 * Args:
 *   request: {method, path, body}; the path is that of the API, without `/api/`.
 *   origin: Scheme, host and port of the page, with a prefix if there is one.
 *   user: Who is logged in.
 */
export function curlLine(request, origin, user) {
  const words = ["curl", "-sS", "-u", user];
  if (request.method !== "GET") words.push("-X", request.method);
  if (request.body !== undefined) {
    words.push("-H", "content-type: application/json", "--data-binary", JSON.stringify(request.body));
  }
  words.push(`${origin.replace(/\/$/, "")}/api/${request.path}`);
  return words.map(shellWord).join(" ");
}
