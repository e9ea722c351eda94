// What the page says when there is nothing, something is wrong, or something was done.

import { html, useEffect, useState } from "../app/html.js";
import { Icon } from "./icon.js";

/** In place of a list or panel without content. */
export function Empty({ title, text = "", icon = "inbox", action = null }) {
  return html`<div class="empty"><${Icon} name=${icon} /><strong>${title}</strong>${text && html`<p>${text}</p>`}${action}</div>`;
}

const LEVEL_ICONS = { good: "good", info: "info", warn: "warn", bad: "bad" };

/** A box with a fact that matters. */
export function Notice({ level = "info", children, role }) {
  return html`<div class=${`notice ${level}`} role=${role}><${Icon} name=${LEVEL_ICONS[level]} /><div class="grow">${children}</div></div>`;
}

/** Why what is shown is old, or not there. */
export function Failure({ error, what }) {
  if (!error) return null;
  if (error.status === 404) {
    return html`<${Notice} level="warn" role="alert"><strong>${what} does not exist.</strong> It may have been deleted meanwhile.<//>`;
  }
  return html`<${Notice} level=${error.status === 401 ? "warn" : "bad"} role="alert">
    <strong>${error.status === 401 ? "Not allowed: " : error.status === 0 ? "Connection lost: " : "Failed: "}</strong>${error.message}
    ${error.status === 0 ? " The page tries again by itself; what it shows is from before." : ""}
  <//>`;
}

export function Badge({ level = "", children, title }) {
  return html`<span class=${`badge ${level}`} title=${title}>${children}</span>`;
}

const TOAST_MS = 6000;

/** Say that something was done ("good"), or was not ("bad"), in the corner of the page. */
export function toast(text, level = "good") {
  document.dispatchEvent(new CustomEvent("toast", { detail: { text, level } }));
}

let toastNumber = 0;

export function Toasts() {
  const [toasts, setToasts] = useState([]);
  useEffect(() => {
    const onToast = ({ detail }) => {
      toastNumber += 1;
      const shown = { ...detail, number: toastNumber };
      setToasts((before) => [...before.slice(-3), shown]);
      if (detail.level !== "bad") setTimeout(() => remove(shown), TOAST_MS);
    };
    const remove = (gone) => setToasts((before) => before.filter((one) => one.number !== gone.number));
    document.addEventListener("toast", onToast);
    return () => document.removeEventListener("toast", onToast);
  }, []);
  return html`<div class="toasts" role="status" aria-live="polite">
    ${toasts.map(({ text, level, number }) => html`<div class=${`toast ${level}`} key=${number}>
      <span class="grow">${text}</span>
      <button class="button plain small icon-only" type="button" aria-label="Dismiss"
        onClick=${() => setToasts((before) => before.filter((one) => one.number !== number))}><${Icon} name="close" small /></button>
    </div>`)}
  </div>`;
}
