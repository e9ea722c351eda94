// Dialogs: one at a time, opened by any view, with the browser's own focus trap.

import { html, useEffect, useId, useLayoutEffect, useRef, useState } from "../app/html.js";
import { announceChange } from "../app/polling.js";
import { ask } from "../app/server.js";
import { CommandLines } from "./copying.js";
import { Icon } from "./icon.js";
import { Notice, toast } from "./notices.js";

/** Open a dialog: `content(close)` returns what is inside it. */
export function openDialog(content) {
  document.dispatchEvent(new CustomEvent("dialog", { detail: content }));
}

/** Stands once in the page, and shows the dialog that was opened. */
export function DialogHost() {
  const [content, setContent] = useState(null);
  useEffect(() => {
    const onOpen = ({ detail }) => setContent(() => detail);
    const onLeave = () => setContent(null);
    document.addEventListener("dialog", onOpen);
    addEventListener("hashchange", onLeave);
    return () => {
      document.removeEventListener("dialog", onOpen);
      removeEventListener("hashchange", onLeave);
    };
  }, []);
  return content && content(() => setContent(null));
}

/**
 * Args:
 *   title: What the dialog does.
 *   onClose: Called when it is closed by a button, Escape or a click beside it.
 *   isDestructive: Marks what cannot be undone.
 *   footer: Buttons.
 */
export function Dialog({ title, onClose, onSubmit, isWide = false, isDestructive = false, footer, children, className = "" }) {
  const node = useRef(null);
  const titleId = useId();
  useLayoutEffect(() => {
    const before = document.activeElement;
    node.current.showModal();
    node.current.querySelector("[data-autofocus]")?.focus();
    return () => before?.isConnected && before.focus?.();
  }, []);
  const content = html`
    <div class="dialog-head"><h2 id=${titleId}>${title}</h2>
      <button type="button" class="button plain small icon-only" aria-label="Close" onClick=${onClose}><${Icon} name="close" /></button></div>
    <div class="dialog-body">${children}</div>
    ${footer && html`<div class="dialog-foot">${footer}</div>`}`;
  return html`<dialog ref=${node} aria-labelledby=${titleId}
      class=${[isWide ? "wide" : "", isDestructive ? "destructive" : "", className].join(" ").trim()}
      onCancel=${(event) => { event.preventDefault(); onClose(); }}
      onMouseDown=${(event) => event.target === node.current && onClose()}>
    ${onSubmit ? html`<form onSubmit=${(event) => { event.preventDefault(); onSubmit(); }}>${content}</form>` : content}
  </dialog>`;
}

/**
 * A dialog for one request to the API: a form, its equivalent on a command line, and the server's words
 * when it refuses.
 *
 * Args:
 *   title, confirm: Heading, and the label of the button that does it.
 *   initial: Values of the fields by name.
 *   fields(values, set): The form's content; `set(name)` returns a handler for `onInput`.
 *   request(values): {method, path, body, headers}, or null while the form is not complete.
 *   command(values): The equivalent command line, or null.
 *   done: Text after success, or a function of the answer and the values. Without it the dialog says nothing.
 *   onDone(answer, values): Called after success.
 *   isDestructive: Deletes something for good; isCaution: takes something away.
 *   before(values, request, set): Does the work instead of the request; returns the answer.
 *   leaves: Success goes to another view.
 *   shownRequest(request): The request as the curl line shows it: without passwords.
 *   showsCommands: False for work that is more than one request.
 *   result(answer): Shown in the dialog, which then stays open.
 *   isOnce(answer): Whether that was it: it cannot be done again in this dialog.
 */
export function ActionDialog({
  title, confirm, initial = {}, fields, request, command = () => null, done, onDone, onClose,
  isDestructive = false, isCaution = false, isWide = false, result = null, before = null, showsCommands = true, leaves = false, shownRequest = (wanted) => wanted,
  isOnce = () => false,
}) {
  const [values, setValues] = useState(initial);
  const [error, setError] = useState(null);
  const [isBusy, setBusy] = useState(false);
  const [answer, setAnswer] = useState(undefined);
  const set = (name) => (event) => {
    const target = event?.target;
    const value = target ? (target.type === "checkbox" ? target.checked : target.value) : event;
    setValues((last) => ({ ...last, [name]: value }));
  };
  let wanted = null;
  let mistake = null;
  let line = null;
  try {
    wanted = request(values);
    line = command(values);
  } catch (invalid) {
    mistake = invalid.message; // a field that is no JSON, for example
  }

  // A long form would hide the server's words below its end.
  const refusal = useRef(null);
  useEffect(() => refusal.current?.scrollIntoView({ block: "nearest" }), [error]);

  const submit = async () => {
    if (!wanted || isBusy) return;
    setBusy(true);
    setError(null);
    try {
      const given = before ? await before(values, wanted, set) : await ask(wanted.path, wanted);
      // A dialog that leaves the view would make it ask for what is gone.
      if (!leaves) announceChange();
      const text = typeof done === "function" ? done(given, values) : done;
      if (text) toast(text);
      if (result) setAnswer(given);
      else onClose();
      onDone?.(given, values);
    } catch (refused) {
      setError(refused);
    } finally {
      setBusy(false);
    }
  };

  const style = isDestructive ? "destroy" : isCaution ? "warn" : "primary";
  return html`<${Dialog} title=${title} onClose=${onClose} onSubmit=${submit} isWide=${isWide} isDestructive=${isDestructive}
    footer=${html`
      <button type="button" class="button" onClick=${onClose} data-autofocus=${isDestructive ? true : undefined}>${answer === undefined ? "Cancel" : "Close"}</button>
      ${answer === undefined || !isOnce(answer) ? html`<button type="submit" class=${`button ${style}`} disabled=${!wanted || isBusy}>${isBusy ? html`<span class="spinner"></span>` : null}${typeof confirm === "function" ? confirm(values) : confirm}</button>` : null}`}>
    ${fields && (answer === undefined || !isOnce(answer)) && fields(values, set)}
    ${mistake && html`<${Notice} level="warn">${mistake}<//>`}
    ${error && html`<div ref=${refusal}><${Notice} level="bad" role="alert">${error.message}<//></div>`}
    ${result && answer !== undefined && result(answer, values)}
    ${showsCommands && html`<${CommandLines} request=${wanted && shownRequest(wanted)} command=${line} />`}
  <//>`;
}
