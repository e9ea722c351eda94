// Run by test_page_files.py with PAGE_URL, the address of a copy of the page's files.

import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { describe, it } from "node:test";

const load = (path) => import(`${process.env.PAGE_URL}/app/${path}`);
const format = await load("format.js");
const addresses = await load("addresses.js");
const { rowFilter } = await load("row_filter.js");
const { sorted } = await load("sorting.js");
const samples = await load("samples.js");
const { whyItGrows } = await load("why_it_grows.js");
const commands = await load("command_lines.js");
const bodies = await load("message_bodies.js");
const { messageMatches } = await load("message_search.js");
const { policyMatches } = await load("policy_match.js");
const { alarmNames } = await load("alarms.js");
const growth = await load("growth.js");
const transfers = await load("transfers.js");
const { fittingColumns, NAME_WIDTH_MIN } = await load("fitting_columns.js");
const { checkSummary } = await load("check_summary.js");
const hidden = await load("hidden_queues.js");
const { listOrder } = await load("list_order.js");
const { loadView } = await load("views.js");
const depths = await load("depth_history.js");
const { sparkPath } = await load("spark_path.js");
const scopes = await load("vhost_paths.js");
const policies = await load("policy_keys.js");

describe("views", () => {
  it("are none where the address names what every object has", async () => {
    for (const name of ["__proto__", "constructor", "toString", "hasOwnProperty", "nothing"]) assert.equal(await loadView(name, []), null);
  });
});

describe("the chosen virtual host", () => {
  it("is asked of the API, not filtered from a list of all", () => {
    assert.equal(scopes.listPath("queues", ""), "queues");
    assert.equal(scopes.listPath("queues", "/"), "queues/%2F");
    assert.equal(scopes.listPath("operator-policies", "team a"), "operator-policies/team%20a");
    assert.equal(scopes.listPath("parameters/shovel", "a/b"), "parameters/shovel/a%2Fb");
    assert.equal(scopes.listPath("connections", "a/b"), "vhosts/a%2Fb/connections");
    assert.equal(scopes.listPath("channels", ""), "channels");
    assert.equal(scopes.listPath("transfers", "a b"), "transfers?vhost=a+b");
    assert.equal(scopes.listPath("audit", "", { limit: 5 }), "audit?limit=5");
    assert.equal(scopes.listPath("exchanges", "v", { page: 1 }), "exchanges/v?page=1");
  });
  it("that is not there is told from one that is not known yet", () => {
    const list = { view: "queues", names: [] };
    assert.equal(scopes.missingVhost(list, "gone", null), null, "the names have not come");
    assert.equal(scopes.missingVhost(list, "gone", ["/"]), "gone");
    assert.equal(scopes.missingVhost(list, "", ["/"]), null);
    assert.equal(scopes.missingVhost({ view: "queues", names: ["nowhere", "q"] }, "", ["/"]), "nowhere");
    assert.equal(scopes.missingVhost({ view: "queues", names: ["/", "q"] }, "gone", ["/"]), null, "the object is that of another one");
    assert.equal(scopes.missingVhost({ view: "users", names: [] }, "gone", ["/"]), null, "users belong to none");
    assert.equal(scopes.missingVhost({ view: "connections", names: ["nowhere", "x"] }, "", ["/"]), null, "a connection has no virtual host in its address");
  });
  it("is what forms begin with", () => {
    assert.equal(scopes.firstVhost("b", ["a", "b"]), "b");
    assert.equal(scopes.firstVhost("", ["a", "b"]), "a");
    assert.equal(scopes.firstVhost("gone", ["a"]), "a");
    assert.equal(scopes.firstVhost("", []), "/");
  });
});

describe("the form of policies", () => {
  it("says times and sizes as people read them", () => {
    assert.equal(policies.valueHint("message-ttl", 86_400_000), "1 d");
    assert.equal(policies.valueHint("max-length-bytes", 1 << 30), "1 GiB");
    assert.equal(policies.valueHint("max-length", 1_000_000), "1,000,000");
    assert.deepEqual([policies.valueHint("max-length", 5), policies.valueHint("max-length", ""), policies.valueHint("overflow", "drop-head")], ["", "", ""]);
  });
  it("keeps a text that is no number, which is a mistake then", () => {
    assert.equal(policies.valueOf("max-length", "12"), 12);
    assert.equal(policies.valueOf("max-length", ""), "");
    assert.equal(policies.valueOf("max-length", "1e"), "1e");
    assert.equal(policies.valueOf("dead-letter-exchange", "12"), "12");
    assert.deepEqual(policies.valueOf("ha-params", '["a"]'), ["a"]);
    assert.deepEqual(Object.keys(policies.definitionMistakes({ "max-length": "", "of-tomorrow": 1, constructor: 1 })), ["max-length"]);
  });
  it("says to which queues a definition cannot apply", () => {
    assert.equal(policies.applyAdvice({ "max-length": 1 }, "classic_queues"), null);
    assert.match(policies.applyAdvice({ "max-length": 1 }, "queues").text, /classic queues and quorum queues only, because max-length is no setting/);
    assert.equal(policies.applyAdvice({ "max-length": 1, "max-age": "1D" }, "all").level, "warn");
    assert.match(policies.applyAdvice({ "max-age": "1D" }, "classic_queues").text, /no queue/);
    assert.match(policies.applyAdvice({ "alternate-exchange": "x" }, "queues").text, /exchanges/);
    assert.equal(policies.applyAdvice({ "alternate-exchange": "x" }, "exchanges"), null);
    assert.equal(policies.applyAdvice({ "of-tomorrow": 1 }, "all"), null);
  });
  it("is what the preview counts by", () => {
    const queues = [{ name: "a", vhost: "/", type: "classic" }, { name: "b", vhost: "/", type: "stream" }];
    const found = (definition) => policyMatches({ vhost: "/", pattern: "", "apply-to": "all", definition }, queues, []).queues.map(({ name }) => name);
    assert.deepEqual([found({ "max-age": "1D" }), found({ "max-length": 1 }), found({ durability: "none" })], [["b"], ["a"], ["a", "b"]]);
  });
});

describe("charts", () => {
  it("of one object begin with its first sample", () => {
    const details = { began: 90_000, samples: [100, 95, 90, 85, 80].map((time) => ({ timestamp: time * 1000, sample: time > 85 ? time : 0 })) };
    assert.deepEqual(samples.gaugeLine(details), [[90, 90], [95, 95], [100, 100]]);
    assert.deepEqual(samples.rateLine(details), [[90, 18], [95, 1], [100, 1]]);
    // A server that does not say when, RabbitMQ for one, leaves all points.
    assert.equal(samples.gaugeLine({ ...details, began: 0 }).length, 5);
    assert.equal(samples.gaugeLine({ samples: details.samples }).length, 5);
    assert.deepEqual([samples.gaugeLine(undefined), samples.rateLine(undefined)], [[], []]);
  });

  it("have a gap where no sample was taken", () => {
    const taken = (times) => times.map((time) => ({ timestamp: time * 1000, sample: time }));
    // The server repeats the value before, and says where.
    const repeated = { gaps: [[10_000, 30_000]], samples: [...taken([0, 5, 10]), { timestamp: 15_000, sample: 10 }, { timestamp: 20_000, sample: 10 }, { timestamp: 25_000, sample: 10 }, ...taken([30, 35, 40])] };
    assert.deepEqual(samples.gaugeLine(repeated), [[0, 0], [5, 5], [10, 10], [20, null], [30, 30], [35, 35], [40, 40]]);
    // No peak of all that was counted during the gap.
    assert.deepEqual(samples.rateLine(repeated), [[5, 1], [10, 1], [30, null], [35, 1], [40, 1]]);
    // Samples that are missing, or null, are the same.
    const missing = { samples: taken([0, 5, 10, 30, 35, 40]) };
    assert.deepEqual(samples.gaugeLine(missing), samples.gaugeLine(repeated));
    assert.deepEqual(samples.gaugeLine({ samples: [...missing.samples, { timestamp: 20_000, sample: null }] }), samples.gaugeLine(repeated));
    assert.deepEqual(samples.rateLine(missing), samples.rateLine(repeated));
    // A gap between two samples of a coarser step hides none of them.
    assert.equal(samples.gaugeLine({ gaps: [[61_000, 100_000]], samples: taken([0, 60, 120, 180]) }).length, 4);
    assert.deepEqual([samples.gaugeLine({ samples: taken([5]) }), samples.rateLine({ samples: taken([5]) })], [[[5, 5]], []]);
  });

  it("pass over the times of other lines, and not over a gap", () => {
    const lines = samples.aligned([[[1, 1], [2, null], [3, 3]], [[1, 5], [3, 7]]]);
    assert.deepEqual(lines, [[1, 2, 3], [1, null, 3], [5, undefined, 7]]);
    assert.deepEqual(samples.stacked(lines.slice(1)), [[1, null, 3], [6, undefined, 10]]);
  });

  it("as small trends have a gap where the page did not look", () => {
    const queue = { vhost: "/", name: "of the past" };
    const looks = [[0, 1], [5000, 2], [11_000, 3], [71_000, 9], [76_000, 8]];
    for (const [millis, messages] of looks) depths.keepDepths([{ ...queue, messages }], millis);
    assert.deepEqual(depths.depthsOf(queue), [[0, 1], [5000, 2], [11_000, 3], [71_000, null], [71_000, 9], [76_000, 8]]);
    assert.equal(sparkPath(depths.depthsOf(queue)), "M0.0 20.0L5.8 17.8L12.7 15.5M82.2 2.0L88.0 4.3");
    assert.equal(sparkPath([[0, 4], [1, 4]]), "M0.0 11.0L88.0 11.0");
  });

  it("begin with the server, by the server's own clock", () => {
    const details = { samples: [{ timestamp: 100_000, sample: 3 }, { timestamp: 90_000, sample: 2 }, { timestamp: 80_000, sample: 0 }, { timestamp: 70_000, sample: 0 }] };
    const began = samples.beganSeconds({ uptime: 15_000 }, details);
    assert.equal(began, 85);
    assert.deepEqual(samples.since([{ label: "Ready", points: samples.gaugePoints(details) }], began), [{ label: "Ready", points: [[90, 2], [100, 3]] }]);
    assert.equal(samples.beganSeconds(undefined, details), null);
    assert.equal(samples.since([{ points: [[1, 2]] }], null)[0].points.length, 1);
  });
});

describe("order of a list", () => {
  it("has the newest first where the mark says so", () => {
    const columns = [{ key: "time", isNewestFirst: true }, { key: "event" }];
    assert.deepEqual(listOrder({}, columns), { key: "time", isDescending: true });
    assert.deepEqual(listOrder({ sort: "time", down: "" }, columns), { key: "time", isDescending: false });
    assert.deepEqual(listOrder({ sort: "event" }, columns), { key: "event", isDescending: false });
    assert.deepEqual(listOrder({}, [{ key: "name" }]), { key: "name", isDescending: false });
  });
  it("is that of the audit log's times, which grow", async () => {
    const text = await readFile(new URL(`${process.env.PAGE_URL}/views/audit.js`), "utf8");
    assert.match(text, /key: "time",.* isNewestFirst: true, value: \(row\) => Date\.parse/);
  });
});

describe("health checks", () => {
  it("are well when all have answered", () => {
    const paths = ["a", "b"];
    assert.equal(checkSummary(paths, {}), null);
    assert.equal(checkSummary(paths, { a: { isFailed: false } }), null, "one is still grey");
    assert.deepEqual(checkSummary(paths, { a: { isFailed: false }, b: { isFailed: false } }), { level: "good", text: "all well" });
    assert.deepEqual(checkSummary(paths, { b: { isFailed: true } }), { level: "bad", text: "1 failed" });
  });
});

describe("queues that a user may not see", () => {
  it("are named where the list is empty", () => {
    assert.equal(hidden.noQueues(hidden.hiddenQueues(0, 0)).title, "No queues yet");
    const found = hidden.noQueues(hidden.hiddenQueues(5009, 0));
    assert.equal(found.title, "You may see none of the 5,009 queues");
    assert.match(found.text, /^5,009 queues are in virtual hosts where you have no permission\./);
  });
  it("are named where no other queue needs attention", () => {
    assert.equal(hidden.nothingToDo(0, 7).title, "No queue needs you");
    assert.equal(hidden.nothingToDo(0, 0).title, "No queue needs you");
    const all = hidden.nothingToDo(hidden.hiddenQueues(5009, 0), 0);
    assert.equal(all.title, "You see no queue");
    assert.equal(all.icon, "queue");
    const some = hidden.nothingToDo(hidden.hiddenQueues(8, 7), 7);
    assert.equal(some.title, "No queue that you see needs you");
    assert.match(some.text, /1 queue is in virtual hosts where you have no permission/);
  });
  it("are none while nobody knows the total, or it is older than the list", () => {
    assert.equal(hidden.hiddenQueues(undefined, 3), 0);
    assert.equal(hidden.hiddenQueues(2, 3), 0);
  });
});

const HOSTILE = ["/", "a/b", "%2F", "a b?c#d", "<img src=x onerror=alert(1)>", "\"'`\\", "émoji 🐰", "#", "?x=1&y", "."];

describe("numbers", () => {
  it("are read by people", () => {
    assert.equal(format.count(1234567), "1,234,567");
    assert.equal(format.count(undefined), "–");
    assert.equal(format.shortCount(9999), "9,999");
    assert.equal(format.shortCount(12345), "12.3k");
    assert.equal(format.shortCount(2_500_000), "2.5M");
    assert.equal(format.bytes(1536), "1.5 KiB");
    assert.equal(format.bytes(0), "0 B");
    assert.equal(format.rate(0.25), "0.25/s");
    assert.equal(format.rate(1234.4), "1,234/s");
    assert.equal(format.change(-3), "−3/s");
    assert.equal(format.change(0), "±0/s");
    assert.equal(format.plural(1, "message"), "1 message");
    assert.equal(format.plural(2000, "message"), "2,000 messages");
  });
  it("never say all of something that is not all", () => {
    assert.equal(format.percent(0.9999), "99.9 %");
    assert.equal(format.percent(1), "100 %");
    assert.equal(format.percent(0.004), "0.4 %");
  });
  it("say how long something takes", () => {
    assert.equal(format.duration(93784), "1 d 2 h");
    assert.equal(format.duration(60), "1 min");
    assert.equal(format.duration(0.25), "250 ms");
    assert.equal(format.duration(0), "0 s");
    assert.equal(format.inWords(180), "3 minutes");
    assert.equal(format.inWords(1), "1 second");
    assert.equal(format.inWords(86400 * 3), "3 days");
  });
});

describe("addresses", () => {
  it("keep every name", () => {
    for (const name of HOSTILE) {
      const found = addresses.parseAddress(addresses.address("queues", [name, name, "messages"], { from: name }));
      assert.deepEqual(found, { view: "queues", names: [name, name, "messages"], query: { from: name } });
      const encoded = addresses.apiPath("queues", "/", name);
      assert.equal(encoded.split("/").length, 3);
      assert.equal(decodeURIComponent(encoded.split("/")[2]), name);
    }
  });
  it("begin at the overview", () => {
    assert.equal(addresses.parseAddress("").view, "overview");
    assert.equal(addresses.parseAddress("#/").view, "overview");
  });
  it("survive a percent sign that somebody typed", () => {
    assert.deepEqual(addresses.parseAddress("#/queues/%/q").names, ["%", "q"]);
  });
  it("leave empty parameters out", () => {
    assert.equal(addresses.address("queues", [], { filter: "", sort: "name" }), "#/queues?sort=name");
  });
});

describe("the filter of a list", () => {
  const rows = [
    { name: "orders", vhost: "/", type: "classic", ready: 1500, durable: true },
    { name: "orders.dead", vhost: "team a", type: "quorum", ready: 0, durable: true },
    { name: "<img src=x>", vhost: "/", type: "stream", ready: 10, durable: false },
  ];
  const fields = Object.fromEntries(["vhost", "type", "ready", "durable"].map((key) => [key, (row) => row[key]]));
  const found = (text) => rows.filter(rowFilter(text, fields, (row) => [row.name])).map(({ name }) => name);
  it("finds words, in any case", () => {
    assert.deepEqual(found("ORDERS"), ["orders", "orders.dead"]);
    assert.deepEqual(found("orders dead"), ["orders.dead"]);
    assert.deepEqual(found("<img"), ["<img src=x>"]);
    assert.deepEqual(found(""), rows.map(({ name }) => name));
  });
  it("compares numbers with their units", () => {
    assert.deepEqual(found("ready>1k"), ["orders"]);
    assert.deepEqual(found("ready<=10"), ["orders.dead", "<img src=x>"]);
    assert.deepEqual(found("ready:0"), ["orders.dead"]);
  });
  it("knows texts, quotes and negation", () => {
    assert.deepEqual(found("type:str"), ["<img src=x>"]);
    assert.deepEqual(found('vhost:"team a"'), ["orders.dead"]);
    assert.deepEqual(found("-orders"), ["<img src=x>"]);
    assert.deepEqual(found("durable:false"), ["<img src=x>"]);
  });
  it("hides nothing while a condition is half typed", () => {
    assert.equal(found("ready>").length, 3);
  });
});

describe("the order of a list", () => {
  it("puts empty values last, both ways", () => {
    const rows = [{ v: 2 }, { v: null }, { v: 10 }, { v: 1 }];
    assert.deepEqual(sorted(rows, ({ v }) => v, false).map(({ v }) => v), [1, 2, 10, null]);
    assert.deepEqual(sorted(rows, ({ v }) => v, true).map(({ v }) => v), [10, 2, 1, null]);
  });
  it("counts inside of names, and changes no list", () => {
    const rows = ["q10", "q2", "Q1"].map((name) => ({ name }));
    assert.deepEqual(sorted(rows, ({ name }) => name, false).map(({ name }) => name), ["Q1", "q2", "q10"]);
    assert.equal(rows[0].name, "q10");
  });
});

describe("samples", () => {
  const details = { samples: [{ timestamp: 15000, sample: 30 }, { timestamp: 10000, sample: 20 }, { timestamp: 5000, sample: 25 }] };
  it("are in the order of time", () => {
    assert.deepEqual(samples.gaugePoints(details), [[5, 25], [10, 20], [15, 30]]);
  });
  it("give rates, and none below zero after a restart", () => {
    assert.deepEqual(samples.ratePoints(details), [[10, 0], [15, 2]]);
    assert.deepEqual(samples.ratePoints(undefined), []);
  });
  it("share one axis", () => {
    assert.deepEqual(samples.aligned([[[1, 5], [2, 6]], [[2, 7]]]), [[1, 2], [5, 6], [undefined, 7]]);
    assert.deepEqual(samples.stacked([[1, 2], [10, null]]), [[1, 2], [11, null]]);
  });
});

describe("why a queue grows", () => {
  const queue = ({ rates = {}, growth = 0, ...rest }) => ({
    name: "q", type: "classic", state: "running", messages: (rest.messages_ready ?? 0) + (rest.messages_unacknowledged ?? 0),
    messages_details: { rate: growth }, ...rest,
    message_stats: Object.fromEntries(Object.entries(rates).map(([name, value]) => [`${name}_details`, { rate: value }])),
  });
  const why = (row, alarms) => whyItGrows(queue(row), alarms);

  it("nobody consumes", () => {
    const found = why({ consumers: 0, messages_ready: 500, growth: 20, rates: { publish: 20 } });
    assert.deepEqual([found.level, found.short, found.cause], ["bad", "no consumers", "consumers"]);
    assert.match(found.headline, /grows by 20\/s because nobody consumes/);
  });
  it("nobody consumes, and dead letters make it grow", () => {
    assert.match(why({ consumers: 0, messages_ready: 500, growth: 5 }).headline, /grows by 5\/s because nobody consumes/);
  });
  it("nobody consumes, and nothing comes in", () => {
    const found = why({ consumers: 0, messages_ready: 1 });
    assert.deepEqual([found.level, found.headline], ["warn", "1 message waits and nobody consumes. Nothing new comes in."]);
  });
  it("consumers are too slow: how many would keep up", () => {
    const found = why({ consumers: 2, messages_ready: 900, messages_unacknowledged: 20, growth: 50, rates: { publish: 150, ack: 100, deliver_get: 100 }, consumer_details: [{ prefetch_count: 10 }, { prefetch_count: 10 }] });
    assert.equal(found.short, "consumers too slow");
    assert.match(found.headline, /publishers send 150\/s, consumers finish 100\/s/);
    assert.match(found.advice, /3 consumers would keep up; there are 2/);
    assert.match(found.advice, /20 unacknowledged of 20/);
  });
  it("a single active consumer is alone", () => {
    const found = why({ consumers: 3, messages_ready: 900, growth: 50, arguments: { "x-single-active-consumer": true }, rates: { publish: 150, ack: 100 } });
    assert.match(found.advice, /one consumer is active at a time/);
    assert.doesNotMatch(found.advice, /would keep up/);
  });
  it("consumers are stuck", () => {
    const found = why({ consumers: 1, messages_ready: 10, messages_unacknowledged: 50, growth: 3, rates: { publish: 3 }, consumer_details: [{ prefetch_count: 50 }] });
    assert.equal(found.short, "consumers stuck");
    assert.match(found.headline, /holds its full prefetch, 50 messages, and acknowledges none/);
  });
  it("messages go in circles", () => {
    assert.equal(why({ consumers: 1, messages_ready: 10, rates: { redeliver: 90, deliver_get: 100, ack: 2 } }).short, "redelivers");
  });
  it("no prefetch limit lets one consumer take all", () => {
    assert.equal(why({ consumers: 2, messages_ready: 0, messages_unacknowledged: 5000, rates: { ack: 3, deliver_get: 4 }, consumer_details: [{ prefetch_count: 0 }] }).short, "no prefetch limit");
  });
  it("it is full", () => {
    assert.equal(why({ consumers: 1, messages_ready: 100, arguments: { "x-max-length": 100 } }).short, "full, drops");
    assert.equal(why({ consumers: 1, messages_ready: 100, arguments: { "x-max-length": 100, "x-overflow": "reject-publish" } }).short, "full, refuses");
    const refusing = why({
      consumers: 1, messages_ready: 100, arguments: { "x-max-length": 100, "x-overflow": "reject-publish" },
      rates: { publish: 2, publish_refused: 40, ack: 2 },
    });
    assert.match(refusing.advice, /Publishers send 42\/s, of which 40\/s are refused; consumers finish 2\/s/);
  });
  it("it will be full", () => {
    assert.match(why({ consumers: 0, messages_ready: 100, growth: 10, rates: { publish: 10 }, arguments: { "x-max-length": 700 } }).advice, /In about 60 seconds it reaches its limit of 700/);
  });
  it("an operator has paused it", () => {
    assert.equal(why({ state: "paused", messages_ready: 5 }).short, "paused");
  });
  it("a stream is meant to grow", () => {
    assert.equal(why({ type: "stream", messages_ready: 5, growth: 5, rates: { publish: 5 } }).level, "info");
  });
  it("publishers are blocked", () => {
    assert.equal(why({ consumers: 1 }, ["memory"]).cause, "publishers");
  });
  it("all is well", () => {
    assert.equal(why({ consumers: 1 }).level, "good");
    assert.equal(why({ consumers: 1, rates: { publish: 10, ack: 10, deliver_get: 10 } }).level, "good");
    assert.match(why({ consumers: 1, messages_ready: 100, growth: -10, rates: { ack: 10, deliver_get: 10 } }).headline, /empty in about 10 seconds/);
  });
});

describe("command lines", () => {
  it("quote every name for the shell", () => {
    assert.equal(commands.commandLine("amqp-server", "browse", "--queue", "it's; rm -rf /"), "amqp-server browse --queue 'it'\\''s; rm -rf /'");
    assert.equal(commands.shellWord(""), "''");
    assert.equal(commands.shellWord("$(x)"), "'$(x)'");
  });
  it("name an object for rabbitmqadmin", () => {
    const line = commands.adminLine("/", "declare queue", { name: "a b", durable: true, arguments: { "x-max-length": 1 }, none: undefined });
    assert.equal(line, `rabbitmqadmin --vhost=/ declare queue 'name=a b' durable=true 'arguments={"x-max-length":1}'`);
  });
  it("ask for the password instead of having it", () => {
    const line = commands.curlLine({ method: "DELETE", path: "queues/%2F/q" }, "http://localhost:15672", "guest");
    assert.equal(line, "curl -sS -u guest -X DELETE http://localhost:15672/api/queues/%2F/q");
  });
});

describe("bodies of messages", () => {
  it("are shown as what they are", () => {
    assert.equal(bodies.readableBody({ body: '{"a":1}' }).text, '{\n  "a": 1\n}');
    assert.equal(bodies.readableBody({ body: "{broken" }).kind, "text");
    assert.equal(bodies.readableBody({ payload: "AAECAw==", payload_encoding: "base64" }).kind, "binary");
    assert.equal(bodies.readableBody({ body_base64: "4pyT" }).text, "✓");
    assert.equal(bodies.readableBody({ body: "" }).kind, "empty");
  });
  it("say where a dead letter was", () => {
    assert.deepEqual(bodies.firstDeath({ "x-death": [{ queue: "b", reason: "expired" }, { queue: "a", reason: "rejected" }] }), { queue: "a", reason: "rejected" });
    assert.equal(bodies.firstDeath({ customer: 7 }), null);
    assert.equal(bodies.firstDeath(undefined), null);
  });
  it("lose the tags of types", () => {
    assert.equal(bodies.headerText({ kind: "l", value: 7 }), "7");
    assert.deepEqual(bodies.plainHeaders({ a: { kind: "l", value: 7 }, b: [{ kind: "T", value: 1 }] }), { a: 7, b: [1] });
  });
  it("are searched with their headers", () => {
    const message = { exchange: "", routing_key: "orders", body: "two chairs", properties: { headers: { customer: 7 } } };
    assert.ok(messageMatches(message, "CHAIRS customer=7"));
    assert.ok(!messageMatches(message, "chairs table"));
    assert.ok(messageMatches(message, '"two chairs"'));
  });
});

describe("the preview of a policy", () => {
  const queues = [{ name: "orders", vhost: "/", type: "classic" }, { name: "my orders", vhost: "/", type: "stream" }, { name: "orders", vhost: "b", type: "classic" }];
  const found = (pattern, apply) => policyMatches({ vhost: "/", pattern, "apply-to": apply }, queues, [{ name: "", vhost: "/" }, { name: "orders.x", vhost: "/" }]);
  it("searches names as the broker does", () => {
    assert.equal(found("orders", "queues").queues.length, 2);
    assert.equal(found("^orders", "queues").queues.length, 1);
    assert.equal(found("orders", "streams").queues.length, 1);
    assert.equal(found("orders", "all").exchanges.length, 1);
  });
  it("waits for a whole pattern", () => {
    assert.equal(found("(", "queues"), null);
  });
});

describe("alarms", () => {
  it("come from the health check that fails", () => {
    assert.deepEqual(alarmNames({ value: { status: "ok" }, error: null }), []);
    assert.deepEqual(alarmNames({ error: { status: 503, details: { alarms: [{ resource: "disk" }, { resource: "disk" }] } } }), ["disk"]);
    assert.equal(alarmNames({ error: { status: 0 } }), null);
  });
});

describe("since when a queue grows", () => {
  const points = (...depths) => depths.map((depth, place) => [1000 + place * 5, depth]);
  it("is the last time that it was low", () => {
    const found = growth.growthOf(points(50, 20, 0, 0, 10, 40, 90, 200));
    assert.deepEqual([found.since, found.grown, found.isOlder], [1015, 200, false]);
    assert.match(growth.growthWords(found, 1035), /^Since .*, for 20 seconds: 200 more messages\.$/);
    assert.match(growth.growthBrief(found, 1035), /^since \d\d:\d\d$/);
  });
  it("lasts over small dips, and not over large ones", () => {
    assert.equal(growth.growthOf(points(0, 100, 95, 200, 190, 400)).since, 1000);
    assert.equal(growth.growthOf(points(0, 100, 400, 10, 200, 400)).since, 1015);
  });
  it("is not before what is known", () => {
    assert.equal(growth.growthOf(points(500, 500, 500, 600, 700)).isOlder, true);
    assert.equal(growth.growthOf(points(500, 600, 700)).isOlder, true);
    assert.equal(growth.growthOf(points(0, 600, 700)).isOlder, false);
    assert.match(growth.growthWords(growth.growthOf(points(500, 600, 700)), 1010), /^Since .* or before, for at least 10 seconds: 200 more/);
    assert.match(growth.growthBrief(growth.growthOf(points(500, 600, 700)), 1010), / or before$/);
  });
  it("is nothing where nothing grows", () => {
    for (const depths of [[], [1, 2], [5, 5, 5], [900, 500, 10], [0, 1, 2], [1000, 1000, 1005]]) assert.equal(growth.growthOf(points(...depths)), null);
    assert.equal(growth.growthWords(null), "");
  });
});

describe("transfers", () => {
  it("say how far they are", () => {
    const move = { kind: "move", state: "running", progress: { start: 100, until: 300, next: 150, moved: 40 } };
    assert.equal(transfers.transferShare(move), 0.25);
    assert.equal(transfers.transferCount(move), 40);
    assert.equal(transfers.transferShare({ ...move, state: "done" }), 1);
    assert.equal(transfers.transferShare({ state: "waiting", progress: {} }), 0);
    assert.equal(transfers.stateWords({ ...move, is_stopping: true }), "stopping");
    assert.equal(transfers.stateWords({ ...move, progress: { is_waiting: true } }), "waits for the end of an alarm");
    assert.equal(transfers.stateWords({ ...move, state: "failed", reason: "full" }), "failed: full");
  });
  it("end in a sentence", () => {
    assert.equal(transfers.resultSentence("move", { moved: 1, is_dry_run: true }), "Would move 1 message.");
    assert.equal(transfers.resultSentence("replay", { replayed: 2, first_offset: 5, last_offset: 1006 }), "Replayed 2 messages, offsets 5 to 1,006.");
    assert.equal(
      transfers.resultSentence("return", { returned: 3, queues: [{ queue: "<b>", returned: 3 }], left: { no_queue: 1, refused: 2 } }),
      "Returned 3 dead letters: 3 to <b>. 1 message whose queue is gone stays. 2 messages that the queue refuses stay.",
    );
  });
});

describe("columns of a list", () => {
  const columns = [{ key: "name", isMain: true }, { key: "why", width: 200 }, { key: "in", width: 100, option: 1 }, { key: "out", width: 100, option: 1 }, { key: "vhost", width: 100, option: 3 }];
  const all = NAME_WIDTH_MIN + 500;
  const keys = (width, hasBoxes) => fittingColumns(columns, width, hasBoxes).map(({ key }) => key).join(" ");
  it("give way to the name, the least wanted first and the last of equals", () => {
    assert.equal(keys(Infinity), "name why in out vhost");
    assert.equal(keys(all), "name why in out vhost");
    assert.equal(keys(all - 1), "name why in out");
    assert.equal(keys(all, true), "name why in out");
    assert.equal(keys(all - 101), "name why in");
    assert.equal(keys(100), "name why");
  });
});
