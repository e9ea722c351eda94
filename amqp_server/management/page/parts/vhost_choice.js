// The choice of a virtual host, in the head of every view.

import { html } from "../app/html.js";
import { useVhost } from "../app/chosen_vhost.js";
import { Icon } from "./icon.js";
import { Empty } from "./notices.js";

const ALL = "All virtual hosts";

/** Who may see one virtual host only has nothing to choose. */
export function VhostChoice() {
  const { vhost, names, choose, isOfAll } = useVhost();
  if (names === null || (names.length < 2 && (vhost === "" || names.includes(vhost)))) return null;
  const isStrange = vhost !== "" && !names.includes(vhost);
  return html`<span class=${`vhost-choice${vhost === "" ? "" : " is-one"}`}><${Icon} name="vhost" small />
    <select aria-label="Virtual host of all views" title=${vhost || ALL} value=${vhost} onInput=${(event) => choose(event.target.value)}>
      <option value="" selected=${vhost === ""}>${ALL}</option>
      ${isStrange && html`<option value=${vhost} selected>${vhost}: not there</option>`}
      ${names.map((name) => html`<option key=${name} value=${name} selected=${name === vhost}>${name}</option>`)}</select></span>
    ${isOfAll && vhost !== "" && html`<span class="quiet small vhost-note">This view: all</span>`}`;
}

/** In place of a view of a virtual host that is not there. */
export function NoVhost({ name }) {
  const { vhost, choose } = useVhost();
  return html`<h1>Not found</h1><${Empty} icon="vhost" title=${`There is no virtual host “${name}”`}
    text="It was deleted, the address is mistyped, or you have no permission in it."
    action=${name === vhost ? html`<button type="button" class="button" onClick=${() => choose("")}>Show all virtual hosts</button>` : html`<a class="button" href="#/queues">Go to the queues</a>`} />`;
}
