// Who is logged in, and what the tags allow. The server decides; the page only hides what it would refuse.

import { createContext, useContext } from "./html.js";

export const Session = createContext(null);

export function useSession() {
  return useContext(Session);
}

/** Whether the user has one of the tags; an administrator has all. */
export function mayAs(session, ...tags) {
  return session.tags.includes("administrator") || tags.some((tag) => session.tags.includes(tag));
}
