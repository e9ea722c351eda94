// The views by the first part of their address. Each is fetched when it is opened first.

export const NAVIGATION = [
  { title: "", views: [
    { view: "overview", title: "Overview", icon: "overview", key: "o" },
    { view: "queues", title: "Queues", icon: "queue", key: "q", count: "queues" },
    { view: "exchanges", title: "Exchanges", icon: "exchange", key: "e", count: "exchanges" },
    { view: "connections", title: "Connections", icon: "connection", key: "c", count: "connections" },
    { view: "channels", title: "Channels", icon: "channel", key: "h", count: "channels" },
    { view: "streams", title: "Streams and groups", icon: "stream", key: "s" },
  ] },
  { title: "Administration", views: [
    { view: "users", title: "Users and permissions", icon: "users", key: "u", tags: ["administrator"] },
    { view: "vhosts", title: "Virtual hosts", icon: "vhost", key: "v" },
    { view: "policies", title: "Policies", icon: "policy", key: "p" },
    { view: "definitions", title: "Definitions", icon: "definitions", key: "d", tags: ["administrator"] },
    { view: "shovels", title: "Shovels", icon: "shovel", key: "w", tags: ["policymaker", "monitoring"] },
    { view: "exports", title: "Exports", icon: "exports", key: "x" },
  ] },
  { title: "Operations", views: [
    { view: "transfers", title: "Transfers", icon: "move", key: "m" },
    { view: "health", title: "Health", icon: "health", key: "t" },
    { view: "audit", title: "Audit log", icon: "audit", key: "a", tags: ["administrator"] },
    { view: "log", title: "Live log", icon: "log", key: "l", tags: ["monitoring"] },
  ] },
];

const MODULES = {
  overview: () => import("../views/overview.js"),
  queues: (names) => (names.length < 2 ? import("../views/queues.js") : import("../views/queue.js")),
  exchanges: (names) => (names.length < 2 ? import("../views/exchanges.js") : import("../views/exchange.js")),
  connections: (names) => (names.length < 1 ? import("../views/connections.js") : import("../views/connection.js")),
  channels: (names) => (names.length < 1 ? import("../views/channels.js") : import("../views/channel.js")),
  streams: () => import("../views/streams.js"),
  users: (names) => (names.length < 1 ? import("../views/users.js") : import("../views/user.js")),
  vhosts: () => import("../views/vhosts.js"),
  policies: () => import("../views/policies.js"),
  definitions: () => import("../views/definitions.js"),
  shovels: () => import("../views/shovels.js"),
  transfers: () => import("../views/transfers.js"),
  exports: () => import("../views/exports.js"),
  health: () => import("../views/health.js"),
  audit: () => import("../views/audit.js"),
  log: () => import("../views/live_log.js"),
};

/** Fetch the component of a view; null when there is no such view. */
export async function loadView(view, names) {
  // Not `MODULES[view]` alone: the address may name what every object has, such as `__proto__`.
  return Object.hasOwn(MODULES, view) ? (await MODULES[view](names)).default : null;
}
