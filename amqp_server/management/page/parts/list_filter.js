// The filter above a list. `/` moves the focus here from anywhere.

import { html } from "../app/html.js";
import { Icon } from "./icon.js";

export function ListFilter({ value, onInput, label, placeholder = "Filter" }) {
  return html`<div class="filter">
    <${Icon} name="search" />
    <input type="search" data-filter value=${value} aria-label=${label} placeholder=${placeholder} spellcheck=${false}
      onInput=${(event) => onInput(event.target.value)} />
    <kbd aria-hidden="true">/</kbd>
  </div>`;
}
