// Fields of forms, each with its label.

import { html, useId } from "../app/html.js";

export function TextField({ label, help, isFull = false, isMono = false, type = "text", ...rest }) {
  const id = useId();
  return html`<div class=${`field${isFull ? " full" : ""}`}>
    <label class="label" for=${id}>${label}</label>
    <input id=${id} type=${type} class=${isMono ? "mono" : undefined} autocomplete="off" spellcheck=${false}
      aria-describedby=${help ? `${id}-help` : undefined} ...${rest} />
    ${help && html`<span class="help" id=${`${id}-help`}>${help}</span>`}
  </div>`;
}

export function TextArea({ label, help, ...rest }) {
  const id = useId();
  return html`<div class="field full">
    <label class="label" for=${id}>${label}</label>
    <textarea id=${id} spellcheck=${false} aria-describedby=${help ? `${id}-help` : undefined} ...${rest}></textarea>
    ${help && html`<span class="help" id=${`${id}-help`}>${help}</span>`}
  </div>`;
}

/** options: texts, or [value, label] pairs. */
export function Select({ label, options, help, value, isFull = false, ...rest }) {
  const id = useId();
  return html`<div class=${`field${isFull ? " full" : ""}`}>
    <label class="label" for=${id}>${label}</label>
    <select id=${id} value=${value} ...${rest}>
      ${options.map((option) => {
        const [key, text] = Array.isArray(option) ? option : [option, option];
        return html`<option key=${key} value=${key} selected=${key === value}>${text}</option>`;
      })}
    </select>
    ${help && html`<span class="help">${help}</span>`}
  </div>`;
}

export function Check({ label, help, ...rest }) {
  return html`<label class="check"><input type="checkbox" ...${rest} /><span>${label}${help && html`<br /><span class="quiet small">${help}</span>`}</span></label>`;
}

/** A choice of a few, as buttons side by side. */
export function Segmented({ label, options, value, onChange }) {
  return html`<span class="segmented" role="group" aria-label=${label}>
    ${options.map(([key, text]) => html`<button key=${key} type="button" aria-pressed=${String(key === value)} onClick=${() => onChange(key)}>${text}</button>`)}
  </span>`;
}

/** The text of a field as a JSON object; an empty field is an empty object. */
export function jsonObject(text, what) {
  if (text.trim() === "") return {};
  let value;
  try {
    value = JSON.parse(text);
  } catch (error) {
    throw new Error(`${what}: not JSON. ${error.message}`);
  }
  if (typeof value !== "object" || value === null || Array.isArray(value)) {
    throw new Error(`${what}: write an object, such as {"x-max-length": 1000}.`);
  }
  return value;
}
