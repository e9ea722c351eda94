// The name of a queue as a field: typed, with the names that fit; a list of 10,000 names is no choice.

import { html, useId, useMemo } from "../app/html.js";
import { plural } from "../app/format.js";

const SHOWN_MAX = 50;

/**
 * Args:
 *   label: Of the field.
 *   names: Names that may be chosen.
 *   value, onInput: As of an input.
 *   emptyHelp: What an empty field means.
 */
export function QueueField({ label, names, value, onInput, emptyHelp = "", ...rest }) {
  const id = useId();
  const known = useMemo(() => new Set(names), [names.length]);
  const wanted = value.toLowerCase();
  const fitting = useMemo(() => names.filter((name) => name.toLowerCase().includes(wanted)).slice(0, SHOWN_MAX + 1), [wanted, known]);
  const isWrong = value !== "" && !known.has(value);
  const help = value === "" ? emptyHelp || plural(known.size, "queue")
    : isWrong ? (fitting.length ? `${fitting.length > SHOWN_MAX ? `More than ${SHOWN_MAX}` : fitting.length} fit` : "No queue has this name") : "";
  return html`<div class="field">
    <label class="label" for=${id}>${label}</label>
    <input id=${id} type="text" class="mono" autocomplete="off" spellcheck=${false} list=${`${id}-names`} value=${value} onInput=${onInput}
      aria-describedby=${`${id}-help`} aria-invalid=${isWrong && fitting.length === 0 ? "true" : undefined} ...${rest} />
    <datalist id=${`${id}-names`}>${fitting.slice(0, SHOWN_MAX).map((name) => html`<option key=${name} value=${name} />`)}</datalist>
    <span class="help" id=${`${id}-help`}>${help}</span>
  </div>`;
}
