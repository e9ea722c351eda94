// The heading of a view: its name, the way back, and its actions.

import { html, useEffect } from "../app/html.js";

export function PageHead({ title, crumbs = [], lead = null, badges = null, actions = null }) {
  useEffect(() => {
    document.title = `${title} · amqp-server`;
  }, [title]);
  return html`<div class="page-head">
    <div class="titles">
      ${crumbs.length > 0 && html`<div class="crumbs">${crumbs.map(({ text, href }, place) => html`${place > 0 && html`<span aria-hidden="true">/</span>`}
        ${href ? html`<a href=${href}>${text}</a>` : html`<span>${text}</span>`}`)}</div>`}
      <div class="row"><h1>${title}</h1>${badges}</div>
      ${lead && html`<p class="lead">${lead}</p>`}
    </div>
    ${actions && html`<div class="row">${actions}</div>`}
  </div>`;
}
