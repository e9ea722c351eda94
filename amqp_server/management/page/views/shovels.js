// Shovels: messages go from a queue here to another broker, or from there to here, until somebody ends them.

import { html } from "../app/html.js";
import { apiPath } from "../app/addresses.js";
import { useVhost } from "../app/chosen_vhost.js";
import { commandLine } from "../app/command_lines.js";
import { shortCount } from "../app/format.js";
import { announceChange, usePolled } from "../app/polling.js";
import { mayAs, useSession } from "../app/session.js";
import { firstVhost, listPath } from "../app/vhost_paths.js";
import { ActionDialog, openDialog } from "../parts/dialog.js";
import { Select, TextField } from "../parts/fields.js";
import { Icon } from "../parts/icon.js";
import { ListView } from "../parts/list_view.js";
import { Badge, Notice } from "../parts/notices.js";

const LEVELS = { running: "good", starting: "info", terminated: "bad" };
const FIELDS = { name: (row) => row.name, vhost: (row) => row.vhost, state: (row) => row.state };
const PLACES = [["queue", "A queue"], ["exchange", "An exchange"]];
const ENDS = [["never", "never: it goes on"], ["queue-length", "when what is there now was moved"]];

export default function Shovels({ query }) {
  const session = useSession();
  const { vhost, names: hosts } = useVhost();
  const shovels = usePolled(mayAs(session, "monitoring", "policymaker") ? listPath("shovels", vhost) : null);
  const parameters = usePolled(mayAs(session, "policymaker") ? listPath("parameters/shovel", vhost) : null);
  const mayChange = mayAs(session, "policymaker");
  const rows = merged(shovels.value ?? [], parameters.value ?? []);
  return html`<${ListView} title="Shovels" noun="shovel" answer=${shovels} rows=${rows} query=${query} fields=${FIELDS}
    words=${(row) => [row.name, row.vhost, placeOf(row, "src"), placeOf(row, "dest")]} placeholder="Name, place, or state:terminated"
    actions=${mayChange && html`<button type="button" class="button primary" disabled=${!hosts} onClick=${() => openCreate(hosts, firstVhost(vhost, hosts))}><${Icon} name="plus" small />New shovel</button>`}
    rowKey=${(row) => `${row.vhost}\n${row.name}`}
    columns=${[
      { key: "name", title: "Name", isMain: true, value: (row) => row.name, cell: (row) => html`<span class="name">${row.name}</span>` },
      { key: "vhost", width: 116, title: "Virtual host", option: 2, value: (row) => row.vhost, cell: (row) => row.vhost },
      { key: "state", width: 116, title: "State", value: (row) => row.state, cell: (row) => html`<${Badge} level=${LEVELS[row.state] ?? ""} title=${row.reason}>${row.state}<//>` },
      { key: "from", width: 190, title: "From", isBrief: true, option: 1, value: (row) => placeOf(row, "src"), cell: (row) => html`<${Place} row=${row} side="src" />` },
      { key: "to", width: 190, title: "To", isBrief: true, option: 1, value: (row) => placeOf(row, "dest"), cell: (row) => html`<${Place} row=${row} side="dest" />` },
      { key: "forwarded", width: 84, title: "Moved", isRight: true, option: 2, value: (row) => row.forwarded ?? -1, cell: (row) => (row.forwarded === undefined ? html`<span class="zero">–</span>` : shortCount(row.forwarded)) },
      { key: "since", width: 166, title: "Since", option: 3, isRight: true, value: (row) => row.timestamp, cell: (row) => html`<span class="soft num">${row.timestamp ?? "–"}</span>` },
      { key: "actions", width: 152, title: "", isRight: true, cell: (row) => (mayChange ? html`
        <button type="button" class="button plain small" onClick=${() => openRestart(row)}>Restart</button>
        <button type="button" class="button plain small" onClick=${() => openDelete(row)}>Delete</button>` : null) },
    ]}
    empty=${{ title: "No shovels", text: "A shovel moves messages between this broker and another one, and goes on after every failure. Between two queues of this broker, use Move messages on the page of a queue.", icon: "shovel" }} />`;
}

/** What runs, and what is configured and does not. */
function merged(states, parameters) {
  const key = ({ vhost, name }) => `${vhost}\n${name}`;
  const running = new Set(states.map(key));
  const others = parameters.filter((one) => !running.has(key(one)));
  return [...states, ...others.map(({ vhost, name, value = {} }) => ({
    vhost, name, state: "not running", src_uri: withoutPassword(value["src-uri"]), dest_uri: withoutPassword(value["dest-uri"]),
    src_queue: value["src-queue"], src_exchange: value["src-exchange"], dest_queue: value["dest-queue"], dest_exchange: value["dest-exchange"],
  }))];
}

function withoutPassword(uri) {
  return String([uri].flat()[0] ?? "").replace(/^(\w+:\/\/[^:/@]*):[^@/]*@/, "$1@");
}

function placeOf(row, side) {
  return [row[`${side}_queue`] ?? row[`${side}_exchange`] ?? "", row[`${side}_uri`] ?? ""].join(" ");
}

function Place({ row, side }) {
  const name = row[`${side}_queue`] ?? row[`${side}_exchange`];
  return html`<strong>${name ?? html`<span class="quiet">(its key)</span>`}</strong> <span class="soft small">${row[`${side}_uri`] ?? ""}</span>`;
}

function openCreate(vhosts, vhost) {
  const initial = { vhost, name: "", srcUri: "amqp://", srcKind: "queue", src: "", srcKey: "#", destUri: "amqp://", destKind: "queue", dest: "", destKey: "", ack: "on-confirm", end: "never", prefetch: "1000" };
  openDialog((close) => html`<${ActionDialog} onClose=${close} isWide title="New shovel" confirm="Create shovel" initial=${initial}
    fields=${(values, set) => html`
      <div class="fields">
        <${TextField} label="Name" isMono value=${values.name} onInput=${set("name")} data-autofocus />
        <${Select} label="Virtual host" options=${vhosts} value=${values.vhost} onInput=${set("vhost")} />
      </div>
      <fieldset class="stack tight"><legend class="label">From</legend><div class="fields">
        <${TextField} label="Source URI" isMono value=${values.srcUri} onInput=${set("srcUri")} help="amqp://user:password@host/vhost; amqp:// is this broker" />
        <${Select} label="Source is" options=${PLACES} value=${values.srcKind} onInput=${set("srcKind")} />
        <${TextField} label="Source name" isMono value=${values.src} onInput=${set("src")} />
        ${values.srcKind === "exchange" && html`<${TextField} label="Source routing key" isMono value=${values.srcKey} onInput=${set("srcKey")} />`}
      </div></fieldset>
      <fieldset class="stack tight"><legend class="label">To</legend><div class="fields">
        <${TextField} label="Destination URI" isMono value=${values.destUri} onInput=${set("destUri")} />
        <${Select} label="Destination is" options=${PLACES} value=${values.destKind} onInput=${set("destKind")} />
        <${TextField} label="Destination name" isMono value=${values.dest} onInput=${set("dest")} />
        ${values.destKind === "exchange" && html`<${TextField} label="Destination routing key" isMono value=${values.destKey} onInput=${set("destKey")} help="Empty: that of the message" />`}
      </div></fieldset>
      <div class="fields">
        <${Select} label="Acknowledge" options=${[["on-confirm", "after the confirm: none is lost"], ["on-publish", "after the publish"], ["no-ack", "never: fastest, may lose some"]]} value=${values.ack} onInput=${set("ack")} />
        <${Select} label="It ends" options=${ENDS} value=${values.end} onInput=${set("end")} />
        <${TextField} label="Prefetch" type="number" min="1" value=${values.prefetch} onInput=${set("prefetch")} />
      </div>`}
    request=${(values) => values.name === "" || values.src === "" || values.dest === "" ? null : ({ method: "PUT", path: apiPath("parameters", "shovel", values.vhost, values.name), body: { value: definition(values) } })}
    shownRequest=${(wanted) => ({ ...wanted, body: { value: { ...wanted.body.value, "src-uri": withoutPassword(wanted.body.value["src-uri"]), "dest-uri": withoutPassword(wanted.body.value["dest-uri"]) } } })}
    command=${(values) => commandLine("rabbitmqctl", "-p", values.vhost, "set_parameter", "shovel", values.name || "NAME", JSON.stringify({ ...definition(values), "src-uri": withoutPassword(values.srcUri), "dest-uri": withoutPassword(values.destUri) }))}
    done=${(_, values) => `The shovel “${values.name}” is there.`} />`);
}

function definition(values) {
  return {
    "src-protocol": "amqp091", "src-uri": values.srcUri, ...(values.srcKind === "queue" ? { "src-queue": values.src } : { "src-exchange": values.src, "src-exchange-key": values.srcKey }),
    "dest-protocol": "amqp091", "dest-uri": values.destUri, ...(values.destKind === "queue" ? { "dest-queue": values.dest } : { "dest-exchange": values.dest, ...(values.destKey ? { "dest-exchange-key": values.destKey } : {}) }),
    "ack-mode": values.ack, "src-delete-after": values.end, "src-prefetch-count": Number(values.prefetch) || 1000,
  };
}

function openRestart(shovel) {
  openDialog((close) => html`<${ActionDialog} onClose=${close} isCaution title=${`Restart the shovel “${shovel.name}”`} confirm="Restart"
    fields=${() => html`<p>It connects again on both sides. What it has not acknowledged at the source goes back there, and is moved again.</p>`}
    request=${() => ({ method: "DELETE", path: apiPath("shovels", "vhost", shovel.vhost, shovel.name, "restart") })}
    command=${() => commandLine("rabbitmqctl", "-p", shovel.vhost, "restart_shovel", shovel.name)}
    done="The shovel is restarted." onDone=${announceChange} />`);
}

function openDelete(shovel) {
  openDialog((close) => html`<${ActionDialog} onClose=${close} isDestructive title=${`Delete the shovel “${shovel.name}”`} confirm="Delete the shovel"
    fields=${() => html`<${Notice} level="bad">It ends. Messages stay where they are: those that it has not acknowledged are ready at the source again.<//>`}
    request=${() => ({ method: "DELETE", path: apiPath("parameters", "shovel", shovel.vhost, shovel.name) })}
    command=${() => commandLine("rabbitmqctl", "-p", shovel.vhost, "clear_parameter", "shovel", shovel.name)}
    done=${`Deleted the shovel “${shovel.name}”.`} />`);
}
