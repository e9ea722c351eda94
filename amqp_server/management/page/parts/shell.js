// What surrounds every view: navigation, health, theme, account, shortcuts, dialogs.

import { html, useEffect, useRef, useState } from "../app/html.js";
import { address } from "../app/addresses.js";
import { ChosenVhost, useVhost, useVhostOfAddress } from "../app/chosen_vhost.js";
import { shortCount } from "../app/format.js";
import { go, useLocation } from "../app/location.js";
import { usePolled } from "../app/polling.js";
import { usePreference } from "../app/preferences.js";
import { logOut } from "../app/server.js";
import { mayAs, useSession } from "../app/session.js";
import { useTotals } from "../app/totals.js";
import { loadView, NAVIGATION } from "../app/views.js";
import { alarmNames } from "../app/alarms.js";
import { Dialog, DialogHost, openDialog } from "./dialog.js";
import { Icon } from "./icon.js";
import { Menu } from "./menu.js";
import { Empty, Failure, Toasts } from "./notices.js";
import { openPalette } from "./palette.js";
import { NoVhost, VhostChoice } from "./vhost_choice.js";

export function Shell() {
  const session = useSession();
  const place = useLocation();
  const [isOpen, setOpen] = useState(false);
  const overview = usePolled("overview?columns=object_totals,cluster_name,product_version,rabbitmq_version,node");
  const chosen = useVhostOfAddress(place);
  const totals = useTotals(chosen.missing === null ? chosen.vhost : "", overview.value?.object_totals);
  useEffect(() => setOpen(false), [place]);
  useShortcuts();
  const mac = navigator.platform?.startsWith("Mac");
  return html`<${ChosenVhost.Provider} value=${chosen}><div class="shell">
    <nav aria-label="Skip"><a class="skip-link" href=${location.hash || "#/overview"} onClick=${skip}>Skip to content</a></nav>
    ${isOpen && html`<button type="button" class="side-scrim" aria-label="Close navigation" onClick=${() => setOpen(false)}></button>`}
    <nav class=${`side${isOpen ? " is-open" : ""}`} id="navigation" aria-label="Views">
      <a class="brand" href="#/overview"><img src="favicon.svg" alt="" /><span>amqp-server<small title=${overview.value?.cluster_name}>${overview.value?.cluster_name ?? ""}</small></span></a>
      ${NAVIGATION.map((group) => html`<div class="nav-group" key=${group.title}>
        ${group.title && html`<div class="nav-title">${group.title}</div>`}
        ${group.views.filter(({ tags }) => !tags || mayAs(session, ...tags)).map((one) => html`
          <a class="nav-link" key=${one.view} href=${address(one.view)} aria-current=${place.view === one.view ? "page" : undefined}>
            <${Icon} name=${one.icon} />${one.title}
            ${one.count && totals ? html`<span class="count">${shortCount(totals[one.count])}</span>` : null}
          </a>`)}
      </div>`)}
    </nav>
    <div>
      <header class="top">
        <button type="button" class="button plain icon-only menu-button" aria-label="Navigation" aria-expanded=${String(isOpen)} aria-controls="navigation" onClick=${() => setOpen(!isOpen)}><${Icon} name="menu" /></button>
        <button type="button" class="button search-button" onClick=${openPalette}>
          <${Icon} name="search" small /><span class="label">Go to…</span><kbd aria-hidden="true">${mac ? "⌘" : "Ctrl"} K</kbd></button>
        <${VhostChoice} />
        <span class="grow"></span>
        <${HealthPill} />
        <${ThemeButton} />
        <${Menu} label=${`Account ${session.name}`} className="button plain account" button=${html`<${Icon} name="user" /><span class="label">${session.name}</span>`}>
          <span class="quiet small" style=${{ padding: "4px 9px" }}>${session.tags.join(", ") || "no tags"}</span>
          <hr />
          <button type="button" onClick=${openShortcuts}>Keyboard shortcuts <kbd>?</kbd></button>
          <a href="api/index.html" target="_blank" rel="noopener">HTTP API</a>
          <hr />
          <button type="button" onClick=${logOut}><${Icon} name="logout" small />Log out</button>
        <//>
      </header>
      <main class="content" id="content" tabindex="-1"><${View} place=${place} /></main>
    </div>
    <${DialogHost} /><${Toasts} />
  </div><//>`;
}

function View({ place }) {
  const { missing } = useVhost();
  const [shown, setShown] = useState({ key: null, component: null, error: null });
  const key = `${place.view} ${Math.min(place.names.length, 2)}`;
  const identity = `${place.view}/${place.names.slice(0, 2).join("\n")}`;
  const lastIdentity = useRef(identity);
  useEffect(() => {
    let isGone = false;
    loadView(place.view, place.names).then(
      (component) => isGone || setShown({ key, component, error: null }),
      (error) => isGone || setShown({ key, component: null, error }),
    );
    return () => { isGone = true; };
  }, [key]);
  useEffect(() => {
    if (lastIdentity.current === identity) return;
    lastIdentity.current = identity;
    scrollTo(0, 0);
    document.getElementById("content").focus({ preventScroll: true });
  }, [identity]);
  if (missing !== null) return html`<${NoVhost} name=${missing} />`;
  if (shown.error) return html`<${Failure} error=${shown.error} what="This view" />`;
  if (shown.key !== key) return html`<div class="skeleton" style=${{ width: "220px", height: "30px" }} role="status" aria-label="Loading"></div>`;
  if (!shown.component) {
    return html`<h1>Not found</h1><${Empty} icon="search" title="There is no such view" text="The address may be mistyped, or from another version."
      action=${html`<a class="button" href="#/overview">Go to the overview</a>`} />`;
  }
  return html`<${shown.component} key=${identity} names=${place.names} query=${place.query} />`;
}

function HealthPill() {
  const health = usePolled("health/checks/alarms", 10000);
  const alarms = alarmNames(health);
  if (alarms === null) {
    return html`<a class="health-pill warn" href="#/health" title=${health.error?.message}><span class="dot warn"></span><span class="label">No answer</span></a>`;
  }
  if (alarms.length) return html`<a class="health-pill bad" href="#/health"><span class="dot bad"></span><span class="label">Alarm: ${alarms.join(", ")}</span></a>`;
  return html`<a class="health-pill" href="#/health"><span class="dot good"></span><span class="label">Healthy</span></a>`;
}

const THEMES = { system: "dark", dark: "light", light: "system" };

function ThemeButton() {
  const [theme, setTheme] = usePreference("theme", "system");
  useEffect(() => {
    if (theme === "system") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = theme;
  }, [theme]);
  return html`<button type="button" class="button plain icon-only" aria-label=${`Theme: ${theme}. Change to ${THEMES[theme]}`} title=${`Theme: ${theme}`}
    onClick=${() => setTheme(THEMES[theme] ?? "system")}><${Icon} name=${theme === "light" ? "sun" : theme === "dark" ? "moon" : "contrast"} /></button>`;
}

function skip(event) {
  event.preventDefault(); // the address stays that of the view
  document.getElementById("content").focus();
}

/** `/` filters, `g q` goes to the queues, `?` shows all, Ctrl+K goes anywhere. */
function useShortcuts() {
  const pending = useRef(0);
  useEffect(() => {
    const onKey = (event) => {
      if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "k") {
        event.preventDefault();
        openPalette();
        return;
      }
      if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
      if (event.target.closest?.("input, textarea, select, [contenteditable]")) {
        if (event.key === "Escape" && event.target.matches("[data-filter]")) event.target.blur();
        return;
      }
      if (pending.current && Date.now() - pending.current < 1500) {
        pending.current = 0;
        const found = NAVIGATION.flatMap(({ views }) => views).find(({ key }) => key === event.key);
        if (found) go(found.view);
        return;
      }
      if (event.key === "g") pending.current = Date.now();
      else if (event.key === "?") openShortcuts();
      else if (event.key === "/") {
        const filter = document.querySelector("[data-filter]");
        if (filter) {
          event.preventDefault();
          filter.focus();
          filter.select();
        }
      }
    };
    addEventListener("keydown", onKey);
    return () => removeEventListener("keydown", onKey);
  }, []);
}

function openShortcuts() {
  openDialog((close) => html`<${Dialog} title="Keyboard shortcuts" onClose=${close}>
    <dl class="facts">
      <dt><kbd>/</kbd></dt><dd>Filter the list</dd>
      <dt><kbd>Ctrl</kbd> <kbd>K</kbd></dt><dd>Go to a queue, exchange or view</dd>
      <dt><kbd>Esc</kbd></dt><dd>Close a dialog, leave the filter</dd>
      <dt><kbd>?</kbd></dt><dd>This list</dd>
      ${NAVIGATION.flatMap(({ views }) => views).map(({ key, title }) => html`<dt key=${key}><kbd>g</kbd> <kbd>${key}</kbd></dt><dd>${title}</dd>`)}
    </dl><//>`);
}
