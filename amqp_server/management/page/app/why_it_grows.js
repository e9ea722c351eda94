// "Why does this queue grow?" A sentence from the queue's own numbers. Pure functions.

import { count, duration, inWords, percent, plural, rate } from "./format.js";
import { queueNumbers } from "./queue_numbers.js";

// Rates are means of some seconds: a difference below this share of the traffic is no trend.
const TREND_SHARE = 0.03;
// Below this share of its time a consumer waits for messages although there are some.
const BUSY_UTILISATION = 0.9;

/**
 * Say what happens in a queue, and what limits it.
 *
 * Args:
 *   queue: A row of `/api/queues`, or one queue with `consumer_details`.
 *   alarms: Names of the alarms that are on.
 *
 * Returns {level, cause, short, headline, advice}: `level` is good, info, warn or bad; `cause` is a stage
 * of the way of messages: publishers, queue, consumers or empty; `short` fits a cell of a table.
 */
export function whyItGrows(queue, alarms = []) {
  const numbers = queueNumbers(queue);
  const details = queue.consumer_details ?? null;
  return (
    broken(numbers)
    ?? paused(numbers)
    ?? stream(numbers)
    ?? full(numbers)
    ?? nobodyConsumes(numbers)
    ?? nothingWaits(numbers, alarms)
    ?? redeliversInCircles(numbers)
    ?? stuckConsumers(numbers, details)
    ?? noPrefetchLimit(numbers, details)
    ?? slowConsumers(numbers, details)
    ?? waitingConsumers(numbers, details)
    ?? shrinks(numbers)
    ?? steady(numbers, alarms)
  );
}

/** Whether messages become more, by the trend of the depth or of the traffic. */
export function isGrowing(numbers) {
  const trend = growth(numbers);
  return trend > 0.1 && trend > TREND_SHARE * Math.max(numbers.in, numbers.acked);
}

function growth(numbers) {
  if (numbers.growth) return numbers.growth;
  return numbers.in - Math.max(numbers.acked + numbers.autoAcked, 0);
}

function answer(level, cause, short, headline, advice = "") {
  return { level, cause, short, headline, advice };
}

function broken({ state }) {
  if (state === "running" || state === "flow" || state === "idle" || state === "paused") return null;
  return answer("bad", "queue", state, `The queue is ${state}: it takes and delivers nothing.`,
    "The server's log names the reason.");
}

function paused({ state, ready, in: incoming }) {
  if (state !== "paused") return null;
  const grows = incoming > 0 ? ` Publishers send ${rate(incoming)}.` : "";
  return answer("warn", "queue", "paused",
    `An operator has paused this queue: ${waits(ready)}, consumers get nothing.${grows}`,
    "Resume it, and consumers go on where they were.");
}

function stream({ isStream, in: incoming, total, consumers }) {
  if (!isStream) return null;
  const reading = consumers === 0 ? "No consumer reads it now." : `${plural(consumers, "consumer")} read it.`;
  return answer("info", "", incoming > 0 ? "stream" : "",
    `A stream keeps its messages: ${count(total)} now, ${rate(incoming)} come in. ${reading}`,
    "It grows until its retention (x-max-age, x-max-length-bytes) removes the oldest segments. "
    + "Look at the lag of each consumer group for what is still unread.");
}

function full({ lengthMax, ready, refusesWhenFull, in: incoming, refused, acked }) {
  if (lengthMax === null || lengthMax === 0 || ready < lengthMax * 0.99) return null;
  return answer("bad", "queue", refusesWhenFull ? "full, refuses" : "full, drops",
    refusesWhenFull
      ? `The queue is full (${count(lengthMax)} messages): new messages are refused.`
      : `The queue is full (${count(lengthMax)} messages): each new message drops the oldest one.`,
    `Publishers send ${rate(incoming + refused)}${refused > 0 ? `, of which ${rate(refused)} are refused` : ""}; consumers finish ${rate(acked)}. `
    + "Add consumers, or raise max-length.");
}

function nobodyConsumes(numbers) {
  if (numbers.consumers > 0 || numbers.total === 0) return null;
  const { ready, unacked, in: incoming, out, oldestSeconds } = numbers;
  if (out > 0.1) return null; // taken with basic.get
  const age = oldestSeconds ? ` The oldest has waited ${inWords(oldestSeconds)}.` : "";
  // Dead letters and moved messages make it grow without being published to it.
  const more = Math.max(incoming, numbers.growth);
  if (more > 0.005) {
    return answer("bad", "consumers", "no consumers",
      `It grows by ${rate(more)} because nobody consumes: the queue has no consumers.`,
      `${waits(ready)}.${age} Start consumers, or remove the binding if the messages are not needed.`
      + timeToFull(numbers, more));
  }
  return answer("warn", "consumers", "no consumers",
    `${waits(ready + unacked)} and nobody consumes. Nothing new comes in.`,
    `${age.trim()}${age ? " " : ""}Start a consumer, move the messages, or purge them.`);
}

function nothingWaits({ total, in: incoming, out, consumers }, alarms) {
  if (total > 0) return null;
  if (incoming < 0.005) {
    const blocked = alarms.length ? ` Publishers are blocked: alarm on ${alarms.join(" and ")}.` : "";
    return answer(blocked ? "warn" : "good", blocked ? "publishers" : "", blocked ? "publishers blocked" : "",
      `Empty and idle: nothing comes in${consumers ? `, ${plural(consumers, "consumer")} ready` : ""}.${blocked}`);
  }
  return answer("good", "", "", `Empty: consumers keep up with ${rate(incoming)} and take ${rate(out)}.`);
}

function redeliversInCircles({ redelivered, out, acked }) {
  if (redelivered < 1 || redelivered < out * 0.5 || acked > redelivered) return null;
  return answer("bad", "consumers", "redelivers",
    `Messages go in circles: ${rate(redelivered)} are redelivered, only ${rate(acked)} are acknowledged.`,
    "Consumers requeue what they cannot process, or end before they acknowledge. Set a delivery limit "
    + "and a dead-letter exchange, and look at the oldest messages.");
}

function stuckConsumers(numbers, details) {
  const { unacked, consumers, acked, autoAcked, out, ready } = numbers;
  if (consumers === 0 || unacked === 0 || ready === 0) return null;
  if (acked + autoAcked + out > 0.005) return null;
  const sum = prefetchSum(details);
  const whole = sum !== null && unacked >= sum ? " their full prefetch," : "";
  return answer("bad", "consumers", "consumers stuck",
    `${consumers === 1 ? "The consumer holds" : `The ${count(consumers)} consumers hold`}${consumers === 1 ? whole.replace("their", "its") : whole} ${plural(unacked, "message")}, and acknowledge${consumers === 1 ? "s" : ""} none.`,
    `${waits(ready)}. The consumers are stuck, or forget to acknowledge: see below which connection holds what, and for how long.`
    + timeToFull(numbers, growth(numbers)));
}

function noPrefetchLimit({ unacked, acked }, details) {
  const isWithout = (details ?? []).some((one) => one.ack_required !== false && !one.prefetch_count);
  if (!isWithout || unacked < 1000 || acked * 60 > unacked) return null;
  return answer("warn", "consumers", "no prefetch limit",
    `Consumers hold ${count(unacked)} messages that are not acknowledged: they set no prefetch limit.`,
    `They finish ${rate(acked)}. Set a prefetch (basic.qos), so that other consumers get a share.`);
}

function slowConsumers(numbers, details) {
  if (!isGrowing(numbers)) return null;
  const { in: incoming, acked, autoAcked, consumers, utilisation, isSingleActive, unacked } = numbers;
  const done = acked + autoAcked;
  const more = growth(numbers);
  if (consumers === 0) {
    return answer("warn", "consumers", "too few gets",
      `It grows by ${rate(more)}: clients fetch ${rate(numbers.out)} with basic.get, publishers send ${rate(incoming)}.`,
      "A consumer (basic.consume) is many times faster than basic.get.");
  }
  const advice = [];
  if (isSingleActive) {
    advice.push("Only one consumer is active at a time (single active consumer).");
  } else {
    const needed = done > 0.05 ? Math.ceil((consumers * Math.max(incoming, done + more)) / done) : 0;
    if (needed > consumers && needed < consumers * 100) {
      advice.push(`At their speed ${plural(needed, "consumer")} would keep up; there ${consumers === 1 ? "is" : "are"} ${count(consumers)}.`);
    }
  }
  if (unacked) advice.push(`They hold ${count(unacked)} unacknowledged${prefetchWords(details)}.`);
  if (utilisation !== null && utilisation < BUSY_UTILISATION && isPrefetchSmall(details)) {
    advice.push("Their prefetch is small: raise it, so that they need not wait for the next message.");
  }
  return answer("warn", "consumers", "consumers too slow",
    `It grows by ${rate(more)}: publishers send ${rate(incoming)}, consumers finish ${rate(done)}.`,
    advice.join(" ") + timeToFull(numbers, more));
}

function waitingConsumers(numbers, details) {
  const { utilisation, ready, consumers } = numbers;
  if (utilisation === null || utilisation >= BUSY_UTILISATION || ready < 100 || consumers === 0) return null;
  if (growth(numbers) < -0.1) return null;
  const advice = numbers.isSingleActive
    ? "Only one of them is active at a time (single active consumer)."
    : isPrefetchSmall(details)
      ? "Their prefetch is small: raise it, or add consumers."
      : "Speed up the consumers, or add some, to work off what waits.";
  return answer("info", "consumers", "consumers at their limit",
    `${waits(ready)}: consumers just keep up, and are free for the next message only ${percent(utilisation)} of the time.`,
    `${speeds(numbers)} ${advice}`);
}

/** The messages that all consumers together may hold; null when one has no limit, or nobody knows. */
function prefetchSum(details) {
  const limits = (details ?? []).filter((one) => one.ack_required !== false).map((one) => one.prefetch_count ?? 0);
  return limits.length && limits.every((limit) => limit > 0) ? limits.reduce((sum, limit) => sum + limit, 0) : null;
}

function prefetchWords(details) {
  const sum = prefetchSum(details);
  return sum === null ? "" : ` of ${count(sum)} that their prefetch allows`;
}

function isPrefetchSmall(details) {
  const limits = (details ?? []).map((one) => one.prefetch_count || Infinity);
  return limits.length > 0 && Math.min(...limits) < 20;
}

function waits(number) {
  return `${plural(number, "message")} ${number === 1 ? "waits" : "wait"}`;
}

function shrinks(numbers) {
  const falling = -growth(numbers);
  const traffic = Math.max(numbers.in, numbers.acked + numbers.autoAcked);
  if (falling <= 0.1 || falling <= traffic * TREND_SHARE || numbers.total === 0) return null;
  return answer("good", "", "shrinks",
    `It shrinks by ${rate(falling)}: empty in about ${inWords(numbers.total / falling)}.`, speeds(numbers));
}

function steady(numbers, alarms) {
  const { ready, unacked, consumers, oldestSeconds, in: incoming } = numbers;
  if (alarms.length && incoming < 0.005) {
    return answer("warn", "publishers", "publishers blocked",
      `Publishers are blocked: alarm on ${alarms.join(" and ")}.`, "Consumers keep working.");
  }
  if (numbers.state === "flow") {
    return answer("info", "publishers", "flow control",
      "Publishers are slowed down (flow control): the queue takes messages as fast as it can store them.", speeds(numbers));
  }
  if (ready === 0) {
    return answer("good", "", "", `Nothing waits. ${plural(consumers, "consumer")} work on ${plural(unacked, "message")}.`,
      speeds(numbers));
  }
  const age = oldestSeconds ? ` The oldest has waited ${duration(oldestSeconds)}.` : "";
  return answer("info", "", "", `${waits(ready)}, and their number is stable.`, speeds(numbers) + age);
}

function speeds({ in: incoming, acked, autoAcked }) {
  return `Publishers send ${rate(incoming)}, consumers finish ${rate(acked + autoAcked)}.`;
}

function timeToFull({ lengthMax, ready, refusesWhenFull }, perSecond) {
  if (lengthMax === null || perSecond <= 0 || ready >= lengthMax) return "";
  const seconds = (lengthMax - ready) / perSecond;
  if (seconds > 86400 * 3) return "";
  const then = refusesWhenFull ? "refuses new messages" : "drops the oldest";
  return ` In about ${inWords(seconds)} it reaches its limit of ${count(lengthMax)} and ${then}.`;
}
