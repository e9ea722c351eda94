// Bodies and headers of messages as text that a person can read. Pure functions.

/** The octets of a body: {payload, payload_encoding} of `get`, or {body | body_base64} of `browse`. */
export function bodyOctets(message) {
  if (typeof message.body === "string") return new TextEncoder().encode(message.body);
  if (typeof message.body_base64 === "string") return fromBase64(message.body_base64);
  if (message.payload_encoding === "base64") return fromBase64(message.payload ?? "");
  return new TextEncoder().encode(message.payload ?? "");
}

/** {kind: "json" | "text" | "binary" | "empty", text}: indented, plain, or a hex dump. */
export function readableBody(message) {
  const octets = bodyOctets(message);
  if (octets.length === 0) return { kind: "empty", text: "" };
  let text;
  try {
    text = new TextDecoder("utf-8", { fatal: true }).decode(octets);
  } catch {
    return { kind: "binary", text: hexDump(octets) };
  }
  if (/[\u0000-\u0008\u000e-\u001f]/.test(text)) return { kind: "binary", text: hexDump(octets) };
  if (/^\s*[[{]/.test(text)) {
    try {
      return { kind: "json", text: JSON.stringify(JSON.parse(text), null, 2) };
    } catch {
      // looks like JSON and is none, or was cut
    }
  }
  return { kind: "text", text };
}

/** One line for a list. */
export function bodyPreview(message, length = 120) {
  const octets = bodyOctets(message);
  let text = new TextDecoder().decode(octets.slice(0, length * 4)).replace(/\s+/g, " ");
  if (/[\u0000-\u001f\ufffd]/.test(text)) {
    text = [...octets.slice(0, length / 3)].map((octet) => octet.toString(16).padStart(2, "0")).join(" ");
  }
  return text.length > length ? `${text.slice(0, length)}…` : text;
}

/** Sixteen octets a line: offset, hexadecimal, and what is ASCII. */
export function hexDump(octets, octetsMax = 4096) {
  const lines = [];
  for (let start = 0; start < Math.min(octets.length, octetsMax); start += 16) {
    const part = [...octets.slice(start, start + 16)];
    const hex = part.map((octet) => octet.toString(16).padStart(2, "0")).join(" ").padEnd(47);
    const ascii = part.map((octet) => (octet >= 32 && octet < 127 ? String.fromCharCode(octet) : ".")).join("");
    lines.push(`${start.toString(16).padStart(6, "0")}  ${hex}  ${ascii}`);
  }
  if (octets.length > octetsMax) lines.push(`… ${octets.length - octetsMax} more bytes`);
  return lines.join("\n");
}

/** A value of a header as text; tagged values of the API ({kind, value}) lose their tag. */
export function headerText(value) {
  if (value === null || value === undefined) return "";
  if (typeof value !== "object") return String(value);
  if ("kind" in value && "value" in value && Object.keys(value).length === 2) {
    return value.kind === "T" ? new Date(value.value * 1000).toISOString() : headerText(value.value);
  }
  return JSON.stringify(value, (_, inner) =>
    inner && typeof inner === "object" && "kind" in inner && "value" in inner ? inner.value : inner);
}

/** Where a dead letter was before: the first death, which is the last one of the list for each queue. */
export function firstDeath(headers) {
  const queue = headers?.["x-first-death-queue"];
  const deaths = headers?.["x-death"];
  const list = Array.isArray(deaths) ? deaths : deaths?.value;
  const entry = Array.isArray(list) ? list[list.length - 1] : null;
  const fields = entry?.value ?? entry ?? {};
  const name = headerText(queue ?? fields.queue);
  if (!name) return null;
  return { queue: name, reason: headerText(headers?.["x-first-death-reason"] ?? fields.reason) };
}

function fromBase64(text) {
  return Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
}

/** Headers without the tags of their types, as the API takes them for a publish. */
export function plainHeaders(value) {
  if (Array.isArray(value)) return value.map(plainHeaders);
  if (value === null || typeof value !== "object") return value;
  if ("kind" in value && "value" in value && Object.keys(value).length === 2) return plainHeaders(value.value);
  return Object.fromEntries(Object.entries(value).map(([name, inner]) => [name, plainHeaders(inner)]));
}
