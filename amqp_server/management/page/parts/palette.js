// Ctrl+K: type a few letters of a queue, an exchange or a view, and go there.

import { html, useLayoutEffect, useMemo, useRef, useState } from "../app/html.js";
import { address } from "../app/addresses.js";
import { exchangeName } from "../app/format.js";
import { usePolled } from "../app/polling.js";
import { useQueues } from "../app/queue_list.js";
import { NAVIGATION } from "../app/views.js";
import { openDialog } from "./dialog.js";
import { Icon } from "./icon.js";

const SHOWN_MAX = 40;

export function openPalette() {
  openDialog((close) => html`<${Palette} onClose=${close} />`);
}

function Palette({ onClose }) {
  const node = useRef(null);
  const [text, setText] = useState("");
  const [place, setPlace] = useState(0);
  const queues = useQueues("");
  const exchanges = usePolled("exchanges?columns=name,vhost,type", 0);
  // Before the next key: a letter that is typed at once belongs here.
  useLayoutEffect(() => {
    node.current.showModal();
    node.current.querySelector("input").focus();
  }, []);
  const targets = useMemo(() => [
    ...NAVIGATION.flatMap(({ views }) => views).map(({ view, title, icon }) => ({ title, icon, kind: "View", href: address(view) })),
    ...(queues.value ?? []).map(({ name, vhost }) => ({ title: name, icon: "queue", kind: `Queue in ${vhost}`, href: address("queues", [vhost, name]) })),
    ...(exchanges.value ?? []).map(({ name, vhost }) => ({ title: exchangeName(name), icon: "exchange", kind: `Exchange in ${vhost}`, href: address("exchanges", [vhost, name || "amq.default"]) })),
  ], [queues.value, exchanges.value]);
  const found = useMemo(() => ranked(targets, text), [targets, text]);
  const current = Math.min(place, found.length - 1);
  const open = (target) => {
    onClose();
    location.hash = target.href;
  };
  const onKey = (event) => {
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      event.preventDefault();
      const next = (current + (event.key === "ArrowDown" ? 1 : -1) + found.length) % Math.max(1, found.length);
      setPlace(next);
      node.current.querySelectorAll("[role=option]")[next]?.scrollIntoView({ block: "nearest" });
    } else if (event.key === "Enter" && found[current]) {
      event.preventDefault();
      open(found[current]);
    }
  };
  return html`<dialog ref=${node} class="palette" aria-label="Go to" onCancel=${(event) => { event.preventDefault(); onClose(); }}
      onMouseDown=${(event) => event.target === node.current && onClose()}>
    <input type="text" role="combobox" aria-label="Name of a queue, an exchange or a view" aria-expanded="true" aria-controls="palette-list"
      aria-activedescendant=${found.length ? `palette-${current}` : undefined} placeholder="Go to a queue, an exchange or a view" spellcheck=${false} autocomplete="off"
      value=${text} onInput=${(event) => { setText(event.target.value); setPlace(0); }} onKeyDown=${onKey} />
    <div class="palette-list" role="listbox" id="palette-list" aria-label="Found" tabindex="-1">
      ${found.map((target, index) => html`<div class="palette-item" role="option" id=${`palette-${index}`} key=${target.href}
          aria-selected=${String(index === current)} onClick=${() => open(target)} onMouseMove=${() => setPlace(index)}>
        <${Icon} name=${target.icon} /><span class="wrap">${target.title}</span><span class="kind">${target.kind}</span></div>`)}
    </div>
    ${found.length === 0 && html`<p class="quiet" style=${{ padding: "4px 18px 18px" }}>Nothing has this name.</p>`}
  </dialog>`;
}

function ranked(targets, text) {
  const wanted = text.trim().toLowerCase();
  if (!wanted) return targets.slice(0, SHOWN_MAX);
  const found = [];
  for (const target of targets) {
    const at = target.title.toLowerCase().indexOf(wanted);
    if (at >= 0) found.push({ target, score: at * 1000 + target.title.length });
  }
  return found.sort((left, right) => left.score - right.score).slice(0, SHOWN_MAX).map(({ target }) => target);
}
