// Icons as paths, drawn in the colour of the text beside them. Decoration: never the only label.

import { html } from "../app/html.js";

const PATHS = {
  overview: "M3 13h7V3H3zM14 21h7V11h-7zM14 3v4h7V3zM3 21h7v-4H3z",
  queue: "M4 6h16M4 12h11M4 18h7",
  exchange: "M4 8h13l-3-3M20 16H7l3 3",
  connection: "M9 7H7a5 5 0 0 0 0 10h2M15 7h2a5 5 0 0 1 0 10h-2M8 12h8",
  channel: "M4 7h16M4 12h16M4 17h16M8 5v4M15 10v4M10 15v4",
  stream: "M3 8c3-3 6-3 9 0s6 3 9 0M3 15c3-3 6-3 9 0s6 3 9 0",
  users: "M9 11a4 4 0 1 0 0-8 4 4 0 0 0 0 8zM2 21v-1a6 6 0 0 1 6-6h2a6 6 0 0 1 6 6v1M16 3.5a4 4 0 0 1 0 7.5M22 21v-1a6 6 0 0 0-4-5.6",
  vhost: "M12 3 3 8l9 5 9-5zM3 13l9 5 9-5",
  policy: "M6 3h9l4 4v14H6zM14 3v5h5M9 13h7M9 17h5",
  definitions: "M12 3v12m0 0 4-4m-4 4-4-4M4 17v3h16v-3",
  exports: "M4 5h16v5H4zM4 14h16v5H4zM8 7.5h.01M8 16.5h.01",
  audit: "M12 8v4l3 2M12 21a9 9 0 1 0-9-9M3 4v5h5",
  health: "M3 12h4l3-8 4 16 3-8h4",
  log: "M5 4h14v16H5zM9 9h6M9 13h6M9 17h3",
  search: "M11 18a7 7 0 1 0 0-14 7 7 0 0 0 0 14zM20 20l-4-4",
  menu: "M4 7h16M4 12h16M4 17h16",
  close: "M6 6l12 12M18 6 6 18",
  more: "M5 12h.01M12 12h.01M19 12h.01",
  sun: "M12 16a4 4 0 1 0 0-8 4 4 0 0 0 0 8zM12 2v2M12 20v2M4.9 4.9l1.4 1.4M17.7 17.7l1.4 1.4M2 12h2M20 12h2M4.9 19.1l1.4-1.4M17.7 6.3l1.4-1.4",
  contrast: "M12 21a9 9 0 1 0 0-18 9 9 0 0 0 0 18zM12 3v18M15 6.5v11M18 9v6",
  moon: "M20 14.5A8.5 8.5 0 0 1 9.5 4a8.5 8.5 0 1 0 10.5 10.5z",
  arrow: "M4 12h15m0 0-6-6m6 6-6 6",
  warn: "M12 3.5 2.5 20h19zM12 10v4M12 17h.01",
  info: "M12 21a9 9 0 1 0 0-18 9 9 0 0 0 0 18zM12 11v5M12 8h.01",
  good: "M12 21a9 9 0 1 0 0-18 9 9 0 0 0 0 18zM8 12l3 3 5-6",
  bad: "M12 21a9 9 0 1 0 0-18 9 9 0 0 0 0 18zM9 9l6 6M15 9l-6 6",
  copy: "M9 9h11v11H9zM5 15H4V4h11v1",
  trash: "M4 7h16M9 7V4h6v3M6 7l1 13h10l1-13M10 11v5M14 11v5",
  purge: "M5 20h14M8 16l8-8M6 14l6-9 7 5-6 9H8z",
  send: "M4 12 20 4l-5 16-3-7z",
  inbox: "M4 13l3-8h10l3 8v6H4zM4 13h5l1 2h4l1-2h5",
  pause: "M9 5v14M15 5v14",
  play: "M7 5l12 7-12 7z",
  plus: "M12 5v14M5 12h14",
  replay: "M4 12a8 8 0 1 0 3-6.2M4 4v4h4",
  move: "M4 12h12m0 0-4-4m4 4-4 4M20 5v14",
  user: "M12 12a4 4 0 1 0 0-8 4 4 0 0 0 0 8zM4 21a8 8 0 0 1 16 0",
  logout: "M10 4H5v16h5M14 8l4 4-4 4M18 12H9",
  columns: "M4 5h16v14H4zM10 5v14M15 5v14",
  filter: "M4 6h16l-6 7v5l-4 2v-7z",
  link: "M10 14a4 4 0 0 0 6 0l3-3a4 4 0 0 0-6-6l-1 1M14 10a4 4 0 0 0-6 0l-3 3a4 4 0 0 0 6 6l1-1",
  node: "M4 4h16v7H4zM4 13h16v7H4zM8 7.5h.01M8 16.5h.01",
  key: "M15 10a4 4 0 1 0-4 4 4 4 0 0 0 1.5-.3L14 15h2v2h2v2h3v-3l-6.3-4.6A4 4 0 0 0 15 10zM10 9h.01",
};

export function Icon({ name, small = false }) {
  return html`<svg class=${small ? "icon s" : "icon"} viewBox="0 0 24 24" aria-hidden="true"><path d=${PATHS[name] ?? PATHS.info} /></svg>`;
}
