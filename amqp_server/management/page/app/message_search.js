// The search in keys, headers and bodies of messages. Pure functions.

import { bodyOctets, headerText } from "./message_bodies.js";

/** Whether all words of the search are in the message; case does not count, quotes keep spaces. */
export function messageMatches(message, search) {
  const words = [...search.toLowerCase().matchAll(/"([^"]+)"?|(\S+)/g)].map(([, quoted, plain]) => quoted ?? plain);
  if (words.length === 0) return true;
  const { headers = {}, ...properties } = message.properties ?? {};
  const text = [
    message.exchange, message.routing_key, new TextDecoder().decode(bodyOctets(message)),
    ...Object.entries(headers).map(([name, value]) => `${name}=${headerText(value)}`),
    ...Object.entries(properties).map(([name, value]) => `${name}=${headerText(value)}`),
  ].join("\n").toLowerCase();
  return words.every((word) => text.includes(word));
}
