// Policies, with what each one matches before and after it is saved.

import { html, useMemo } from "../app/html.js";
import { address, apiPath } from "../app/addresses.js";
import { useVhost } from "../app/chosen_vhost.js";
import { commandLine } from "../app/command_lines.js";
import { count, plural } from "../app/format.js";
import { definitionMistakes, queueTypes } from "../app/policy_keys.js";
import { policyMatches } from "../app/policy_match.js";
import { usePolled } from "../app/polling.js";
import { useQueues } from "../app/queue_list.js";
import { mayAs, useSession } from "../app/session.js";
import { firstVhost, listPath } from "../app/vhost_paths.js";
import { ActionDialog, openDialog } from "../parts/dialog.js";
import { Select, TextField } from "../parts/fields.js";
import { Icon } from "../parts/icon.js";
import { ListView } from "../parts/list_view.js";
import { Badge, Notice } from "../parts/notices.js";
import { PolicyForm, readDefinition } from "../parts/policy_form.js";

const APPLY_TO = ["queues", "exchanges", "all", "classic_queues", "quorum_queues", "streams"];
const MATCHES_SHOWN = 12;
const FIELDS = { name: (row) => row.name, vhost: (row) => row.vhost, pattern: (row) => row.pattern, kind: (row) => row.kind };

export default function Policies({ query }) {
  const session = useSession();
  const { vhost, names: hosts } = useVhost();
  const policies = usePolled(listPath("policies", vhost));
  const operator = usePolled(listPath("operator-policies", vhost));
  // Of all: the form can be told another virtual host than the chosen one.
  const queues = useQueues("");
  const exchanges = usePolled("exchanges?columns=name,vhost,type", 30000);
  const rows = useMemo(() => [
    ...(policies.value ?? []).map((row) => ({ ...row, kind: "policy" })),
    ...(operator.value ?? []).map((row) => ({ ...row, kind: "operator" })),
  ], [policies.value, operator.value]);
  const found = (row) => policyMatches(row, queues.value ?? [], exchanges.value ?? []);
  const mayChange = mayAs(session, "policymaker");
  const lists = { queues: queues.value ?? [], exchanges: exchanges.value ?? [] };
  return html`<${ListView} title="Policies" noun="policy" answer=${policies} rows=${rows} query=${query} fields=${FIELDS} words=${(row) => [row.name, row.pattern, row.vhost]} placeholder="Name, pattern, or kind:operator"
    lead="A policy gives limits, lifetimes and dead-letter exchanges to all queues or exchanges whose name matches. Of those that match, the one with the highest priority counts."
    actions=${mayChange && html`<button type="button" class="button primary" disabled=${!hosts} onClick=${() => openPolicy({ vhost: firstVhost(vhost, hosts) }, hosts, lists, mayAs(session))}><${Icon} name="plus" small />New policy</button>`}
    rowKey=${(row) => `${row.kind}\n${row.vhost}\n${row.name}`}
    columns=${[
      { key: "name", title: "Name", isMain: true, value: (row) => row.name, cell: (row) => html`<span class="name">${row.name}</span> ${row.kind === "operator" && html`<${Badge} level="info">operator<//>`}` },
      { key: "vhost", width: 116, title: "Virtual host", option: 2, value: (row) => row.vhost, cell: (row) => html`<span class="soft">${row.vhost}</span>` },
      { key: "pattern", width: 150, title: "Pattern", value: (row) => row.pattern, cell: (row) => html`<code title=${row.pattern}>${row.pattern}</code>` },
      { key: "apply", width: 116, title: "Applies to", option: 2, value: (row) => row["apply-to"], cell: (row) => row["apply-to"] },
      { key: "definition", width: 240, title: "Definition", option: 1, cell: (row) => html`<code title=${JSON.stringify(row.definition)}>${Object.entries(row.definition).map(([key, value]) => `${key}=${typeof value === "object" ? JSON.stringify(value) : value}`).join("  ")}</code>` },
      { key: "priority", width: 84, title: "Priority", isRight: true, value: (row) => row.priority, cell: (row) => count(row.priority) },
      { key: "matches", width: 116, title: "Matches", isRight: true, value: (row) => total(found(row)), cell: (row) => html`<a href=${address("queues", [], { filter: `policy:"${row.name}"` })}>${matchWords(found(row))}</a>` },
      { key: "actions", width: 152, title: "", isRight: true, cell: (row) => (mayChange ? html`<button type="button" class="button plain small" onClick=${() => openPolicy(row, hosts, lists, mayAs(session))}>Change</button>
        <button type="button" class="button plain small" onClick=${() => openDelete(row)}>Delete</button>` : null) },
    ]}
    empty=${{ title: "No policies", text: "Give limits and dead-letter exchanges to many queues at once, without changing a program.", icon: "policy" }} />`;
}

const total = (found) => (found ? found.queues.length + found.exchanges.length : 0);

function matchWords(found) {
  if (!found) return "–";
  return [found.queues.length && plural(found.queues.length, "queue"), found.exchanges.length && plural(found.exchanges.length, "exchange")].filter(Boolean).join(", ") || "nothing";
}

/** Change a policy, or make one where it has no name yet. */
function openPolicy(policy, hosts, lists, isAdministrator) {
  const isNew = policy.name === undefined;
  const kindPath = (kind) => (kind === "operator" ? "operator-policies" : "policies");
  openDialog((close) => html`<${ActionDialog} onClose=${close} isWide title=${!isNew ? `Change the policy “${policy.name}”` : "New policy"} confirm="Save policy"
    initial=${{ kind: policy.kind ?? "policy", vhost: policy.vhost, name: policy.name ?? "", pattern: policy.pattern ?? "^", apply: policy["apply-to"] ?? "queues", priority: String(policy.priority ?? 0), definition: JSON.stringify(policy.definition ?? {}, null, 2) }}
    fields=${(values, set) => html`<div class="fields">
        ${isNew && html`<${TextField} label="Name" isMono value=${values.name} onInput=${set("name")} data-autofocus />
          <${Select} label="Virtual host" options=${hosts} value=${values.vhost} onInput=${set("vhost")} />`}
        ${isNew && isAdministrator && html`<${Select} label="Kind" options=${[["policy", "Policy"], ["operator", "Operator policy: sets bounds above all others"]]} value=${values.kind} onInput=${set("kind")} />`}
        <${TextField} label="Pattern of names" isMono value=${values.pattern} onInput=${set("pattern")} />
        <${Select} label="Applies to" options=${values.kind === "operator" ? APPLY_TO.filter((one) => one === values.apply || (one !== "exchanges" && one !== "all")) : APPLY_TO} value=${values.apply} onInput=${set("apply")} />
        <${TextField} label="Priority" type="number" value=${values.priority} onInput=${set("priority")} />
      </div>
      <${PolicyForm} text=${values.definition} onWritten=${set("definition")} isOperator=${values.kind === "operator"} applyTo=${values.apply}
        exchanges=${lists.exchanges.filter(({ name, vhost }) => vhost === values.vhost && name !== "").map(({ name }) => name)} />
      <${Preview} values=${values} lists=${lists} />`}
    request=${(values) => {
      const { definition, mistake } = readDefinition(values.definition);
      if (mistake) throw new Error(mistake);
      const isReady = values.name !== "" && isWholeNumber(values.priority) && Object.keys(definition).length > 0
        && Object.keys(definitionMistakes(definition, values.kind === "operator")).length === 0;
      return !isReady ? null : {
        method: "PUT", path: apiPath(kindPath(values.kind), values.vhost, values.name),
        body: { pattern: values.pattern, "apply-to": values.apply, priority: Number(values.priority), definition },
      };
    }}
    command=${(values) => commandLine("amqp-server", values.kind === "operator" ? "operator-policies" : "policies", "set", values.name || "NAME", values.pattern, JSON.stringify(readDefinition(values.definition).definition), "--vhost", values.vhost, "--apply-to", values.apply, "--priority", values.priority)}
    done=${(_, values) => `The policy “${values.name}” applies.`} />`);
}

const isWholeNumber = (text) => /^-?\d+$/.test(text);

function Preview({ values, lists }) {
  const definition = readDefinition(values.definition).definition ?? {};
  const found = policyMatches({ vhost: values.vhost, pattern: values.pattern, "apply-to": values.apply, definition }, lists.queues, lists.exchanges);
  if (!found) return html`<${Notice} level="warn">The pattern is no regular expression yet.<//>`;
  const all = [...found.queues, ...found.exchanges];
  const isForNothing = queueTypes(definition).length === 0 && !["exchanges", "all"].includes(values.apply);
  return html`<${Notice} level=${all.length ? "info" : "warn"} role="status">
    <strong>${all.length ? `Matches ${matchWords(found)} now` : "Matches nothing now"}</strong>${all.length ? `, of ${plural(lists.queues.length, "queue")}.` : isForNothing ? "." : "; it will apply to what is declared later."}
    <div class="row tight">${all.slice(0, MATCHES_SHOWN).map((row) => html`<${Badge} key=${`${row.vhost}\n${row.name}`}>${row.name}<//>`)}${all.length > MATCHES_SHOWN && html`<span class="quiet small">and ${count(all.length - MATCHES_SHOWN)} more</span>`}</div>
  <//>`;
}

function openDelete(policy) {
  const isOperator = policy.kind === "operator";
  openDialog((close) => html`<${ActionDialog} onClose=${close} isDestructive title=${`Delete the policy “${policy.name}”`} confirm="Delete the policy"
    fields=${() => html`<p>Queues and exchanges that match <code>${policy.pattern}</code> lose its settings at once: limits and dead-letter exchanges end.</p>`}
    request=${() => ({ method: "DELETE", path: apiPath(isOperator ? "operator-policies" : "policies", policy.vhost, policy.name) })}
    command=${() => commandLine("amqp-server", isOperator ? "operator-policies" : "policies", "clear", policy.name, "--vhost", policy.vhost)}
    done=${`Deleted “${policy.name}”.`} />`);
}
