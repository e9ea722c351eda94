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
 * A command of `rabbitmqadmin`, which talks to the same API.
 *
 * Args:
 *   vhost: Virtual host.
 *   verb: Words of the command, such as "purge queue".
 *   values: What is given as `name=value`; objects as JSON, undefined values not at all.
 */
export function adminLine(vhost, verb, values) {
  const given = Object.entries(values).filter(([, value]) => value !== undefined)
    .map(([name, value]) => `${name}=${typeof value === "object" ? JSON.stringify(value) : value}`);
  return commandLine("rabbitmqadmin", `--vhost=${vhost}`, ...verb.split(" "), ...given);
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
