// The replays, returns and moves of messages that the broker does: their words and how far they are. Pure functions.

import { count, plural } from "./format.js";

const WORDS = {
  replay: { title: "Replay", counted: "replayed", done: "Replayed", would: "Would replay", noun: "message" },
  return: { title: "Return of dead letters", counted: "returned", done: "Returned", would: "Would return", noun: "dead letter" },
  move: { title: "Move", counted: "moved", done: "Moved", would: "Would move", noun: "message" },
};

export function transferWords(kind) {
  return WORDS[kind] ?? WORDS.move;
}

export function isUnderWay({ state }) {
  return state === "running" || state === "waiting";
}

/** How many messages it has done. */
export function transferCount({ kind, progress }) {
  return progress?.[transferWords(kind).counted] ?? 0;
}

/** How much of its part of the log it has passed, 0 to 1. */
export function transferShare({ state, progress }) {
  if (state === "done") return 1;
  const { start = 0, until = 0, next = start } = progress ?? {};
  return until > start ? Math.min(1, Math.max(0, (next - start) / (until - start))) : 0;
}

/** The result of one, in a sentence. */
export function resultSentence(kind, answer) {
  const words = transferWords(kind);
  const done = answer[words.counted] ?? 0;
  const parts = [`${answer.is_dry_run ? words.would : words.done} ${plural(done, words.noun)}`];
  if (answer.queues?.length) parts.push(`: ${answer.queues.map(({ queue, returned }) => `${count(returned)} to ${queue}`).join(", ")}`);
  if (Number.isFinite(answer.first_offset)) parts.push(`, offsets ${count(answer.first_offset)} to ${count(answer.last_offset)}`);
  return `${parts.join("")}. ${leftWords(answer.left)}`.trim();
}

function leftWords(left = {}) {
  const words = [[left.no_death, "without a death"], [left.no_queue, "whose queue is gone"], [left.refused, "that the queue refuses"]];
  return words.filter(([number]) => number).map(([number, why]) => `${plural(number, "message")} ${why} ${number === 1 ? "stays" : "stay"}.`).join(" ");
}

/** What its state is, in words. */
export function stateWords(transfer) {
  const { state, progress, reason } = transfer;
  if (transfer.is_stopping && isUnderWay(transfer)) return "stopping";
  if (state === "waiting") return "waits for its turn";
  if (state === "running") return progress?.is_waiting ? "waits for the end of an alarm" : "runs";
  if (state === "failed") return reason ? `failed: ${reason}` : "failed";
  return state;
}
