// The definition of a policy: a field for each key, or the JSON of it. Both are the same text.

import { html, useId, useLayoutEffect, useRef, useState } from "../app/html.js";
import { applyAdvice, definitionMistakes, firstValue, namesOfGroup, POLICY_GROUPS, POLICY_KEYS, policyKey, textOf, valueHint, valueOf } from "../app/policy_keys.js";
import { jsonObject, Segmented, TextArea } from "./fields.js";
import { Icon } from "./icon.js";
import { Notice } from "./notices.js";

const UNITS = { ms: "ms", bytes: "bytes", messages: "messages", returns: "returns", files: "files", nodes: "nodes" };

/** The definition that the text says, or the reason why it says none: {definition, mistake}. */
export function readDefinition(text) {
  try {
    return { definition: jsonObject(text, "Definition"), mistake: null };
  } catch (invalid) {
    return { definition: null, mistake: invalid.message };
  }
}

/**
 * Args:
 *   text: JSON of the definition, and `onWritten(text)` to change it.
 *   isOperator: Whether it is that of an operator policy.
 *   applyTo: What the policy applies to.
 *   exchanges: Names that may be chosen for an exchange.
 */
export function PolicyForm({ text, onWritten, isOperator, applyTo, exchanges }) {
  const [way, setWay] = useState("form");
  const { definition, mistake } = readDefinition(text);
  const advice = definition && applyAdvice(definition, applyTo);
  return html`<section class="stack" aria-label="Definition">
    <div class="row between"><h3>Definition</h3>
      <${Segmented} label="Way to write the definition" options=${[["form", "Form"], ["json", "As JSON"]]} value=${way} onChange=${setWay} /></div>
    ${way === "json" && html`<${TextArea} label="Definition (JSON)" rows=${Math.min(14, Math.max(5, text.split("\n").length))} value=${text} onInput=${(event) => onWritten(event.target.value)} />
      ${definition && html`<${Mistakes} definition=${definition} isOperator=${isOperator} />`}`}
    ${way === "form" && (definition
      ? html`<${Settings} definition=${definition} isOperator=${isOperator} exchanges=${exchanges} onChange=${(next) => onWritten(JSON.stringify(next, null, 2))} />`
      : html`<${Notice} level="warn">The form is here again when the JSON can be read. ${mistake}<//>`)}
    ${advice && html`<${Notice} level=${advice.level} role="status">${advice.text}<//>`}
  </section>`;
}

function Mistakes({ definition, isOperator }) {
  const found = Object.entries(definitionMistakes(definition, isOperator));
  if (found.length === 0) return null;
  return html`<${Notice} level="warn" role="status">${found.map(([name, words]) => html`<div key=${name}><code>${name}</code>: ${words}</div>`)}<//>`;
}

function Settings({ definition, isOperator, exchanges, onChange }) {
  const node = useRef(null);
  // Whose input has the focus next: that of a key that was added, or the list of keys after one was removed.
  const focus = useRef(null);
  useLayoutEffect(() => {
    const wanted = focus.current && node.current.querySelector(focus.current);
    if (!wanted) return;
    wanted.focus();
    focus.current = null;
  });
  const mistakes = definitionMistakes(definition, isOperator);
  const change = (name, value) => onChange({ ...definition, [name]: value });
  const remove = (name) => {
    focus.current = "[data-adds]";
    onChange(Object.fromEntries(Object.entries(definition).filter(([one]) => one !== name)));
  };
  const unknown = Object.keys(definition).filter((name) => !policyKey(name));
  const groups = POLICY_GROUPS.map((group) => [group, namesOfGroup(group, definition)]).filter(([, names]) => names.length);
  return html`<div class="settings" ref=${node}>
    ${groups.map(([group, names]) => html`<fieldset key=${group} class="setting-group"><legend>${group}</legend>
      ${names.map((name) => html`<${Setting} key=${name} name=${name} value=${definition[name]} mistake=${mistakes[name]} exchanges=${exchanges}
        onValue=${(value) => change(name, value)} onRemove=${() => remove(name)} />`)}</fieldset>`)}
    ${unknown.length > 0 && html`<fieldset class="setting-group"><legend>Not known here</legend>
      ${unknown.map((name) => html`<div class="setting" key=${name}>
        <div class="setting-words"><span class="label"><code class="wrap">${name}</code></span><span class="help">The page keeps it. Change it as JSON.</span></div>
        <code class="wrap setting-value">${JSON.stringify(definition[name])}</code><${Remove} name=${name} onRemove=${() => remove(name)} /></div>`)}</fieldset>`}
    ${groups.length + unknown.length === 0 && html`<p class="soft setting-none">Nothing yet. A policy has one setting or more: choose the first one.</p>`}
    <${AddSetting} definition=${definition} isOperator=${isOperator} onAdd=${(name) => {
      focus.current = `[data-setting="${name}"]`;
      change(name, firstValue(name));
    }} />
  </div>`;
}

function Setting({ name, value, mistake, exchanges, onValue, onRemove }) {
  const id = useId();
  const { title, help } = POLICY_KEYS[name];
  const hint = valueHint(name, value);
  return html`<div class="setting">
    <div class="setting-words"><label class="label" for=${id}>${title} <code>${name}</code></label><span class="help" id=${`${id}-help`}>${help}</span></div>
    <div class="setting-value">
      <${Value} id=${id} name=${name} value=${value} mistake=${mistake} exchanges=${exchanges} onValue=${onValue} />
      ${mistake ? html`<span class="help mistake" id=${`${id}-mistake`}>${mistake}</span>` : hint && html`<span class="help">= ${hint}</span>`}
    </div>
    <${Remove} name=${name} onRemove=${onRemove} />
  </div>`;
}

function Remove({ name, onRemove }) {
  return html`<button type="button" class="button plain small icon-only" aria-label=${`Remove ${name}`} title="Remove" onClick=${onRemove}><${Icon} name="close" small /></button>`;
}

function Value({ id, name, value, mistake, exchanges, onValue }) {
  const { kind, unit, lowest, highest, choices } = POLICY_KEYS[name];
  const words = { id, "data-setting": name, "aria-describedby": mistake ? `${id}-mistake ${id}-help` : `${id}-help`, "aria-invalid": mistake ? "true" : undefined };
  const text = textOf(name, value);
  const onInput = (event) => onValue(valueOf(name, event.target.value));
  if (kind === "choice" || kind === "truth") {
    const options = kind === "truth" ? [["true", "yes"], ["false", "no"]] : choices.map((one) => [one, one]);
    const isStrange = !options.some(([one]) => one === text);
    return html`<select ...${words} value=${text} onInput=${(event) => onValue(kind === "truth" ? event.target.value === "true" : event.target.value)}>
      ${isStrange && html`<option value=${text} selected>${text}</option>`}
      ${options.map(([one, label]) => html`<option key=${one} value=${one} selected=${one === text}>${label}</option>`)}</select>`;
  }
  if (kind === "integer") {
    return html`<div class="with-unit"><input type="number" step="1" min=${lowest === -Number.MAX_SAFE_INTEGER ? undefined : lowest} max=${highest} ...${words} value=${text} onInput=${onInput} />
      ${unit && html`<span class="unit">${UNITS[unit]}</span>`}</div>`;
  }
  return html`<input type="text" class="mono" autocomplete="off" spellcheck=${false} ...${words} value=${text} onInput=${onInput}
      placeholder=${kind === "age" ? "7D" : undefined} list=${kind === "exchange" ? `${id}-names` : undefined} />
    ${kind === "exchange" && html`<datalist id=${`${id}-names`}>${exchanges.slice(0, 100).map((one) => html`<option key=${one} value=${one} />`)}</datalist>`}`;
}

function AddSetting({ definition, isOperator, onAdd }) {
  const id = useId();
  const [chosen, setChosen] = useState("");
  const free = Object.keys(POLICY_KEYS).filter((name) => !Object.hasOwn(definition, name) && (!isOperator || POLICY_KEYS[name].isOperators));
  const name = free.includes(chosen) ? chosen : "";
  const groups = POLICY_GROUPS.map((group) => [group, free.filter((one) => POLICY_KEYS[one].group === group)]).filter(([, names]) => names.length);
  return html`<div class="setting-add">
    <label class="label" for=${id}>Add a setting</label>
    <div class="row nowrap"><select id=${id} data-adds value=${name} onInput=${(event) => setChosen(event.target.value)} aria-describedby=${`${id}-help`}>
      <option value="" selected=${name === ""}>Choose…</option>
      ${groups.map(([group, names]) => html`<optgroup key=${group} label=${group}>${names.map((one) => html`<option key=${one} value=${one} selected=${one === name}>${POLICY_KEYS[one].title} (${one})</option>`)}</optgroup>`)}</select>
      <button type="button" class="button" disabled=${name === ""} onClick=${() => { onAdd(name); setChosen(""); }}><${Icon} name="plus" small />Add</button></div>
    <span class="help" id=${`${id}-help`}>${name ? POLICY_KEYS[name].help : ""}</span>
  </div>`;
}
