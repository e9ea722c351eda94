// A button that opens a list of further actions.

import { html, useEffect, useRef, useState } from "../app/html.js";

export function Menu({ label, button, children, className = "button" }) {
  const [isOpen, setOpen] = useState(false);
  const node = useRef(null);
  useEffect(() => {
    if (!isOpen) return undefined;
    const onOutside = (event) => node.current?.contains(event.target) || setOpen(false);
    const onKey = (event) => {
      if (event.key !== "Escape") return;
      setOpen(false);
      node.current?.querySelector("button")?.focus();
    };
    document.addEventListener("pointerdown", onOutside);
    document.addEventListener("keydown", onKey);
    return () => {
      document.removeEventListener("pointerdown", onOutside);
      document.removeEventListener("keydown", onKey);
    };
  }, [isOpen]);
  return html`<div class="menu" ref=${node}>
    <button type="button" class=${className} aria-expanded=${String(isOpen)} aria-label=${label} onClick=${() => setOpen(!isOpen)}>${button}</button>
    ${isOpen && html`<div class="menu-list" onClick=${(event) => event.target.closest("button, a") && setOpen(false)}>${children}</div>`}
  </div>`;
}
