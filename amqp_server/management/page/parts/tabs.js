// The parts of a view, each with its address.

import { html } from "../app/html.js";
import { shortCount } from "../app/format.js";

/** tabs: [{key, title, href, count}]. */
export function Tabs({ label, tabs, current }) {
  return html`<nav class="tabs" aria-label=${label}>${tabs.map(({ key, title, href, count }) => html`
    <a key=${key} href=${href} aria-current=${key === current ? "page" : undefined}>${title}${count ? html`<span class="count">${shortCount(count)}</span>` : null}</a>`)}</nav>`;
}
