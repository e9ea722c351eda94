// Numbers, sizes, ages and moments as people read them. Pure functions.

const GROUPED = new Intl.NumberFormat("en-US");

/** 1234567 -> "1,234,567"; anything that is no number -> "–". */
export function count(value) {
  return Number.isFinite(value) ? GROUPED.format(Math.round(value)) : "–";
}

/** 1234567 -> "1.23M", for places with little room. */
export function shortCount(value) {
  if (!Number.isFinite(value)) return "–";
  const size = Math.abs(value);
  if (size < 10_000) return GROUPED.format(Math.round(value));
  for (const [unit, suffix] of [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"]]) {
    if (size >= unit) return trimmed(value / unit) + suffix;
  }
  return String(value);
}

/** A rate per second: 0.25 -> "0.25/s", 1234 -> "1,234/s". */
export function rate(value) {
  if (!Number.isFinite(value)) return "–";
  const size = Math.abs(value);
  if (size < 0.005) return "0/s";
  if (size < 10) return `${String(Math.round(value * 100) / 100)}/s`;
  return `${size < 100_000 ? GROUPED.format(Math.round(value)) : shortCount(value)}/s`;
}

/** A rate with its sign: "+12/s", "−3/s". */
export function change(value) {
  if (!Number.isFinite(value) || Math.abs(value) < 0.005) return "±0/s";
  return (value > 0 ? "+" : "−") + rate(Math.abs(value));
}

/** 1536 -> "1.5 KiB". */
export function bytes(value) {
  if (!Number.isFinite(value)) return "–";
  const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
  let size = value;
  let unit = 0;
  while (Math.abs(size) >= 1024 && unit < units.length - 1) {
    size /= 1024;
    unit += 1;
  }
  return `${unit === 0 ? GROUPED.format(size) : trimmed(size)} ${units[unit]}`;
}

/** 0..1 -> "97 %". A share that is not quite all is never shown as 100 %. */
export function percent(share) {
  if (!Number.isFinite(share)) return "–";
  const value = share * 100;
  if (value > 99 && value < 100) return `${(Math.floor(value * 10) / 10).toFixed(1)} %`;
  return `${value !== 0 && Math.abs(value) < 1 ? value.toFixed(1) : Math.round(value)} %`;
}

/** Seconds as the two largest units: 93784 -> "1 d 2 h". */
export function duration(seconds) {
  if (!Number.isFinite(seconds)) return "–";
  if (seconds < 0) return `−${duration(-seconds)}`;
  if (seconds < 0.001) return "0 s";
  if (seconds < 1) return `${Math.round(seconds * 1000)} ms`;
  if (seconds < 10) return `${trimmed(seconds)} s`;
  const whole = Math.round(seconds);
  const parts = [
    [Math.floor(whole / 86400), "d"],
    [Math.floor(whole / 3600) % 24, "h"],
    [Math.floor(whole / 60) % 60, "min"],
    [whole % 60, "s"],
  ];
  const first = parts.findIndex(([number]) => number > 0);
  return parts
    .slice(first, first + 2)
    .filter(([number]) => number > 0)
    .map(([number, unit]) => `${number} ${unit}`)
    .join(" ");
}

/** Seconds in words for a sentence: 180 -> "3 minutes". */
export function inWords(seconds) {
  const steps = [[86400 * 2, 86400, "day"], [5400, 3600, "hour"], [90, 60, "minute"], [0, 1, "second"]];
  const [, size, unit] = steps.find(([from]) => seconds >= from);
  const number = Math.max(1, Math.round(seconds / size));
  return `${GROUPED.format(number)} ${unit}${number === 1 ? "" : "s"}`;
}

/** "1 message", "2 messages". */
export function plural(number, word, words = `${word}s`) {
  return `${count(number)} ${number === 1 ? word : words}`;
}

/** A moment (ms since 1970, or ISO text) as "2026-11-23 07:41:05" in the reader's time zone. */
export function moment(value, withMillis = false) {
  const date = new Date(value);
  if (value === null || value === undefined || Number.isNaN(date.getTime())) return "–";
  const two = (number) => String(number).padStart(2, "0");
  const day = `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())}`;
  return `${day} ${clock(date, withMillis)}`;
}

/** The time of day of a moment. */
export function clock(value, withMillis = false) {
  const date = new Date(value);
  const two = (number) => String(number).padStart(2, "0");
  const time = `${two(date.getHours())}:${two(date.getMinutes())}:${two(date.getSeconds())}`;
  return withMillis ? `${time}.${String(date.getMilliseconds()).padStart(3, "0")}` : time;
}

/** How long ago a moment (ms since 1970) was. */
export function ago(millis, now = Date.now()) {
  return Number.isFinite(millis) ? `${duration(Math.max(0, (now - millis) / 1000))} ago` : "–";
}

/** A name that is empty has to be seen too. */
export function exchangeName(name) {
  return name === "" ? "(default exchange)" : name;
}

/** A virtual host in the way to a view: "/" alone would look like a separator. */
export function vhostCrumb(name) {
  return `virtual host ${name}`;
}

function trimmed(value) {
  const digits = Math.abs(value) >= 100 ? 0 : Math.abs(value) >= 10 ? 1 : 2;
  return String(Number(value.toFixed(digits)));
}
