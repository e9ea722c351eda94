// The heading of a view: its name, the way back, and its actions.

import { html, useEffect } from "../app/html.js";
import { curlLine } from "../app/command_lines.js";
import { ORIGIN } from "../app/server.js";
import { useSession } from "../app/session.js";
import { copyText } from "./copying.js";
import { Icon } from "./icon.js";

/**
 * Args:
 *   title: Name of the view; `crumbs`: the way back, `lead`: a line below, `badges`, `actions`: beside it.
 *   path: What the view asks the API for, to be copied as a curl line.
 */
export function PageHead({ title, crumbs = [], lead = null, badges = null, actions = null, path = null }) {
  const session = useSession();
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
    ${(actions || path) && html`<div class="row">
      ${path && html`<button type="button" class="button plain small" title="Copy what this view asks the API for, as a curl line" onClick=${() => copyText(curlLine({ method: "GET", path }, ORIGIN, session.name))}><${Icon} name="copy" small />Copy as curl</button>`}
      ${actions}</div>`}
  </div>`;
}
