// The start of the page: who is logged in, then the shell with the view that the address names.

import { html, render, useEffect, useState } from "./html.js";
import { forgetAnswers } from "./polling.js";
import { currentSession, whenLoggedOut } from "./server.js";
import { Session } from "./session.js";
import { Login } from "../parts/login.js";
import { Shell } from "../parts/shell.js";

function Page({ initial }) {
  const [session, setSession] = useState(initial);
  useEffect(() => {
    whenLoggedOut(() => {
      forgetAnswers();
      setSession(null);
    });
  }, []);
  if (!session) return html`<${Login} onLogin=${setSession} />`;
  return html`<${Session.Provider} value=${session}><${Shell} /><//>`;
}

async function start() {
  let session = null;
  try {
    session = await currentSession();
  } catch {
    // the server is away: the login says so when it is tried
  }
  const place = document.getElementById("page");
  place.replaceChildren();
  render(html`<${Page} initial=${session} />`, place);
}

start();
