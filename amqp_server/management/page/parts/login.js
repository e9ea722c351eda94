// The form that asks who somebody is.

import { html, useEffect, useRef, useState } from "../app/html.js";
import { logIn } from "../app/server.js";
import { Notice } from "./notices.js";

export function Login({ onLogin }) {
  const [error, setError] = useState(null);
  const [isBusy, setBusy] = useState(false);
  const name = useRef(null);
  useEffect(() => {
    document.title = "Log in · amqp-server";
    name.current.focus();
  }, []);
  const submit = async (event) => {
    event.preventDefault();
    const form = new FormData(event.target);
    setBusy(true);
    setError(null);
    try {
      onLogin(await logIn(form.get("username"), form.get("password")));
    } catch (refused) {
      setError(refused);
      setBusy(false);
    }
  };
  return html`<main class="login">
    <form onSubmit=${submit} aria-labelledby="login-title">
      <div class="brand"><img src="favicon.svg" alt="" /><h1 id="login-title">amqp-server</h1></div>
      <div class="field"><label class="label" for="username">User</label>
        <input id="username" name="username" type="text" autocomplete="username" autocapitalize="none" spellcheck=${false} required ref=${name} /></div>
      <div class="field"><label class="label" for="password">Password</label>
        <input id="password" name="password" type="password" autocomplete="current-password" /></div>
      ${error && html`<${Notice} level="bad" role="alert">${error.message}<//>`}
      <button class="button primary" type="submit" disabled=${isBusy}>${isBusy ? html`<span class="spinner"></span>` : null}Log in</button>
      <p class="small quiet">The user needs the tag management, monitoring, policymaker or administrator.</p>
    </form>
  </main>`;
}
