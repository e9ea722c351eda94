// What the server says, asked again and again while somebody looks.

import { useCallback, useEffect, useRef, useState } from "./html.js";
import { ask } from "./server.js";

const EVERY_MS = 5000;
// A list of 10,000 queues takes its time: ask at most a tenth of the time.
const SHARE = 10;

/** The newest answer by path, so that a view that is opened again shows something at once. */
const lastAnswers = new Map();
const LAST_ANSWERS_MAX = 60;

/**
 * Poll a path of the API.
 *
 * Args:
 *   path: Below `/api/`; null asks nothing.
 *   every: Milliseconds between two requests; 0 asks once.
 *
 * Returns {path, value, error, isLoading, reload}: `value` stays the last good one when a request fails.
 */
export function usePolled(path, every = EVERY_MS) {
  const [state, setState] = useState(() => ({ path, value: lastAnswers.get(path), error: null }));
  const wake = useRef(() => {});

  useEffect(() => {
    setState({ path, value: lastAnswers.get(path), error: null });
    if (path === null) return undefined;
    const abort = new AbortController();
    let timer = 0;
    let isAsking = false;
    const round = async () => {
      clearTimeout(timer);
      if (isAsking) return;
      if (document.hidden) return; // `visibilitychange` goes on
      isAsking = true;
      const began = performance.now();
      try {
        const value = await ask(path, { signal: abort.signal });
        remember(path, value);
        setState({ path, value, error: null });
      } catch (error) {
        if (abort.signal.aborted) return;
        setState((before) => ({ ...before, path, error }));
      } finally {
        isAsking = false;
      }
      if (every && !abort.signal.aborted) {
        timer = setTimeout(round, Math.max(every, (performance.now() - began) * SHARE));
      }
    };
    wake.current = round;
    const onVisible = () => document.hidden || round();
    document.addEventListener("visibilitychange", onVisible);
    document.addEventListener("changed", round);
    round();
    return () => {
      abort.abort();
      clearTimeout(timer);
      document.removeEventListener("visibilitychange", onVisible);
      document.removeEventListener("changed", round);
    };
  }, [path, every]);

  const reload = useCallback(() => wake.current(), []);
  // The state of another path, until the effect has run, is nobody's.
  const isOwn = state.path === path;
  const value = isOwn ? state.value : lastAnswers.get(path);
  const error = isOwn ? state.error : null;
  return { path, value, error, isLoading: path !== null && value === undefined && !error, reload };
}

/** Tell every view on the page that something was changed: they ask again at once. */
export function announceChange() {
  document.dispatchEvent(new Event("changed"));
}

/** Forget all answers: another user may not see them. */
export function forgetAnswers() {
  lastAnswers.clear();
}

function remember(path, value) {
  lastAnswers.delete(path);
  lastAnswers.set(path, value);
  if (lastAnswers.size > LAST_ANSWERS_MAX) lastAnswers.delete(lastAnswers.keys().next().value);
}
