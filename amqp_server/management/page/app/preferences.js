// What one operator has chosen on this machine: theme, virtual host, columns, time range.

import { useEffect, useState } from "./html.js";

/** A value kept in the browser under a name, shared by all parts of the page that use it. */
export function usePreference(name, initial) {
  const [value, setValue] = useState(() => stored(name, initial));
  useEffect(() => {
    const onChange = (event) => event.detail.name === name && setValue(event.detail.value);
    document.addEventListener("preference", onChange);
    return () => document.removeEventListener("preference", onChange);
  }, [name]);
  return [value, (next) => {
    try {
      localStorage.setItem(name, typeof next === "string" ? next : JSON.stringify(next));
    } catch {
      // a browser that keeps nothing: the choice holds until the page is closed
    }
    document.dispatchEvent(new CustomEvent("preference", { detail: { name, value: next } }));
  }];
}

function stored(name, initial) {
  const text = localStorage.getItem(name);
  if (text === null) return initial;
  if (typeof initial === "string") return text;
  try {
    return JSON.parse(text);
  } catch {
    return initial;
  }
}
