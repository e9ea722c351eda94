// A panel at the side for one row of a list, which stays visible beside it.

import { html, useEffect, useRef } from "../app/html.js";
import { Icon } from "./icon.js";

export function Sheet({ title, onClose, onPrevious, onNext, children }) {
  const node = useRef(null);
  useEffect(() => {
    const before = document.activeElement;
    node.current.focus();
    return () => before?.isConnected && before.focus?.();
  }, []);
  const onKey = (event) => {
    if (event.target.closest("input, textarea, select")) return;
    if (event.key === "Escape") onClose();
    if (event.key === "ArrowUp" && event.altKey) onPrevious?.();
    if (event.key === "ArrowDown" && event.altKey) onNext?.();
  };
  return html`<aside class="sheet" ref=${node} tabindex="-1" aria-label=${title} onKeyDown=${onKey}>
    <div class="dialog-head"><h2>${title}</h2>
      ${onPrevious && html`<button type="button" class="button plain small icon-only" aria-label="Previous" title="Alt + up" onClick=${onPrevious}>↑</button>`}
      ${onNext && html`<button type="button" class="button plain small icon-only" aria-label="Next" title="Alt + down" onClick=${onNext}>↓</button>`}
      <button type="button" class="button plain small icon-only" aria-label="Close" onClick=${onClose}><${Icon} name="close" /></button></div>
    <div class="sheet-body" tabindex="0" role="region" aria-label="Content">${children}</div>
  </aside>`;
}
