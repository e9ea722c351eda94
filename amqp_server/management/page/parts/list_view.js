// What most lists have in common: heading, filter, table, and the address that keeps filter and order.

import { html, useMemo } from "../app/html.js";
import { useVhost } from "../app/chosen_vhost.js";
import { count, plural } from "../app/format.js";
import { replaceQuery, useTypedFilter } from "../app/location.js";
import { listOrder } from "../app/list_order.js";
import { rowFilter } from "../app/row_filter.js";
import { ListFilter } from "./list_filter.js";
import { Failure } from "./notices.js";
import { PageHead } from "./page_head.js";
import { Table } from "./table.js";

/**
 * Args:
 *   title, lead, actions: Of the heading.
 *   noun: What one row is; in the plural for the count.
 *   answer: Of `usePolled`.
 *   rows: The rows, when they are not `answer.value` itself.
 *   fields, words: As of `rowFilter`.
 *   placeholder: Example of a filter.
 *   query: Of the address.
 *   table: Further properties of the table.
 */
export function ListView({ title, lead, actions, noun, answer, rows = answer.value ?? [], fields, words, placeholder, query, children, columns: all, rowKey, empty, ...table }) {
  const [filter, onFilter] = useTypedFilter(query);
  const { vhost } = useVhost();
  // Where one virtual host is chosen, a column with its name says nothing.
  const columns = vhost === "" ? all : all.filter(({ key, isOfAll }) => key !== "vhost" || isOfAll);
  const shown = useMemo(() => rows.filter(rowFilter(filter, fields, words)), [rows, filter]);
  const order = listOrder(query, columns);
  return html`
    <${PageHead} title=${title} actions=${actions} path=${answer.path}
      lead=${lead ?? (answer.value && (filter ? `${count(shown.length)} of ${plural(rows.length, noun)}` : plural(rows.length, noun)))} />
    <${Failure} error=${answer.error} what="The list" />
    ${children}
    <div class="toolbar"><${ListFilter} label=${`Filter ${title.toLowerCase()}`} value=${filter} onInput=${onFilter} placeholder=${placeholder} /></div>
    <${Table} label=${title} columns=${columns} rows=${shown} rowKey=${rowKey} order=${order} isLoading=${answer.isLoading}
      onOrder=${({ key, isDescending }) => replaceQuery({ sort: key, down: isDescending ? "1" : "" })}
      empty=${filter && rows.length ? { title: "Nothing matches", icon: "search", action: html`<button type="button" class="button" onClick=${() => onFilter("")}>Clear the filter</button>` } : empty}
      ...${table} />`;
}
