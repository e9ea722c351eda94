// The table of every list: sorted by its headings, filtered, with only the visible rows in the page.

import { fittingColumns } from "../app/fitting_columns.js";
import { Component, html, useEffect, useLayoutEffect, useMemo, useRef, useState } from "../app/html.js";
import { sorted } from "../app/sorting.js";
import { Empty } from "./notices.js";

const ROW_HEIGHT = 35;
const ROWS_WITHOUT_WINDOW = 80;
const ROWS_BESIDE_WINDOW = 8;

/**
 * Args:
 *   label: What the table lists, for screen readers.
 *   columns: [{key, title, cell(row), value(row), isRight, isMain, isBrief, option: 1..3}]; a column with `value` sorts by it, and
 *     a text has it as its title, or `text(row)`;
 *     `isMain` and `isBrief` bound its width; `width` in pixels fixes it, where all others have one: then columns do not
 *     jump while somebody scrolls or types, and the browser need not measure every cell;
 *     `option` hides it where the name would have too little room, 3 first.
 *   rows, rowKey: The rows, and a text that names each.
 *   order: {key, isDescending}, and `onOrder` to change it.
 *   isOrdered: The rows come in that order already.
 *   selection: A set of row keys, and `onSelect(keys)`; without it there are no boxes.
 *   empty: {title, text, action} when there is no row.
 */
export function Table({ label, columns: given, rows, rowKey, order, onOrder, selection = null, onSelect, empty, isLoading = false, isOrdered = false }) {
  const holder = useRef(null);
  const [view, setView] = useState({ top: 0, height: 900 });
  const [width, setWidth] = useState(Infinity);
  const lastChecked = useRef(null);
  const isFixed = given.every(({ width: wide, isMain }) => wide || isMain);
  const columns = useMemo(
    () => (isFixed ? fittingColumns(given, width, selection !== null) : given),
    [given, isFixed, width, selection !== null],
  );
  const ordered = useMemo(() => {
    const column = given.find(({ key }) => key === order?.key);
    return column?.value && !isOrdered ? sorted(rows, column.value, order.isDescending) : rows;
  }, [rows, order?.key, order?.isDescending, isOrdered]);
  const isLong = ordered.length > ROWS_WITHOUT_WINDOW;
  const isShown = !isLoading && rows.length > 0;

  // Before the first drawing, so that no column is seen to go.
  useLayoutEffect(() => {
    const node = holder.current;
    if (!node || !isFixed) return undefined;
    const measure = () => setWidth(node.clientWidth);
    measure();
    const observer = new ResizeObserver(measure);
    observer.observe(node);
    return () => observer.disconnect();
  }, [isFixed, isShown]);

  useLayoutEffect(() => {
    const node = holder.current;
    if (!node || !isLong) return undefined;
    const measure = () => setView({ top: node.scrollTop, height: node.clientHeight });
    measure();
    node.addEventListener("scroll", measure, { passive: true });
    const observer = new ResizeObserver(measure);
    observer.observe(node);
    return () => {
      node.removeEventListener("scroll", measure);
      observer.disconnect();
    };
  }, [isLong]);

  // A shorter list can end above the place that was scrolled to.
  useEffect(() => {
    if (holder.current && isLong) setView({ top: holder.current.scrollTop, height: holder.current.clientHeight });
  }, [ordered.length]);

  if (isLoading) return html`<${Loading} label=${label} />`;
  if (rows.length === 0) return html`<div class="table-wrap"><${Empty} ...${empty} /></div>`;

  const first = isLong ? Math.max(0, Math.floor(view.top / ROW_HEIGHT) - ROWS_BESIDE_WINDOW) : 0;
  const end = isLong
    ? Math.min(ordered.length, Math.ceil((view.top + view.height) / ROW_HEIGHT) + ROWS_BESIDE_WINDOW)
    : ordered.length;

  const toggle = (row, isChecked, isRange) => {
    const next = new Set(selection);
    const keys = ordered.map(rowKey);
    const here = keys.indexOf(rowKey(row));
    const from = isRange && lastChecked.current !== null ? keys.indexOf(lastChecked.current) : here;
    for (const key of keys.slice(Math.min(from, here), Math.max(from, here) + 1)) {
      if (isChecked) next.add(key);
      else next.delete(key);
    }
    lastChecked.current = rowKey(row);
    onSelect(next);
  };
  const toggling = useRef(toggle);
  toggling.current = toggle;
  const onToggle = useRef((...given) => toggling.current(...given)).current;
  const isAll = selection !== null && ordered.length > 0 && selection.size >= ordered.length
    && ordered.every((row) => selection.has(rowKey(row)));

  return html`<div class=${`table-wrap${isLong ? " tall" : ""}`} ref=${holder} tabindex="0" role="group" aria-label=${label}>
    <table aria-rowcount=${ordered.length + 1} class=${isFixed ? "fixed" : undefined}>
      <caption class="visually-hidden">${label}</caption>
      ${isFixed && html`<colgroup>${selection && html`<col class="check-cell" />`}
        ${columns.map((column) => html`<col key=${column.key} class=${classes(column)} style=${column.width ? { width: `${column.width}px` } : undefined} />`)}</colgroup>`}
      <thead><tr>
        ${selection && html`<th class="check-cell" scope="col">
          <input type="checkbox" aria-label=${`Select all ${ordered.length}`} checked=${isAll}
            onChange=${(event) => onSelect(event.target.checked ? new Set(ordered.map(rowKey)) : new Set())} />
        </th>`}
        ${columns.map((column) => html`<${Heading} key=${column.key} column=${column} order=${order} onOrder=${onOrder} />`)}
      </tr></thead>
      <tbody>
        ${first > 0 && html`<${Spacer} rows=${first} />`}
        ${ordered.slice(first, end).map((row, place) => {
          const key = rowKey(row);
          return html`<${Row} key=${key} name=${key} row=${row} columns=${columns} index=${first + place + 2} onToggle=${onToggle}
            hasBox=${selection !== null} isSelected=${Boolean(selection?.has(key))} />`;
        })}
        ${end < ordered.length && html`<${Spacer} rows=${ordered.length - end} />`}
      </tbody>
    </table>
  </div>`;
}

/** One row. It is drawn again only when it is another one: of thousands that are filtered, most of those in view stay. */
class Row extends Component {
  shouldComponentUpdate(next) {
    return ["row", "columns", "index", "isSelected", "hasBox"].some((name) => next[name] !== this.props[name]);
  }

  render({ name, row, columns, index, hasBox, isSelected, onToggle }) {
    return html`<tr aria-rowindex=${index} class=${isSelected ? "is-selected" : ""}>
      ${hasBox && html`<td class="check-cell">
        <input type="checkbox" aria-label=${`Select ${row.name ?? name}`} checked=${isSelected}
          onClick=${(event) => onToggle(row, event.target.checked, event.shiftKey)} />
      </td>`}
      ${columns.map((column) => html`<td key=${column.key} class=${classes(column)} title=${titleOf(column, row)}>${column.cell(row)}</td>`)}
    </tr>`;
  }
}

/** The whole text, where the cell has too little room for it. */
function titleOf(column, row) {
  const text = (column.text ?? column.value)?.(row);
  return typeof text === "string" && text !== "" ? text : undefined;
}

function Heading({ column, order, onOrder }) {
  const isOrder = order?.key === column.key;
  const direction = isOrder ? (order.isDescending ? "descending" : "ascending") : undefined;
  if (!column.value || !onOrder) {
    return html`<th scope="col" class=${classes(column)}>${column.title || html`<span class="visually-hidden">Actions</span>`}</th>`;
  }
  // Numbers are wanted from the largest one, names from the first one.
  const next = { key: column.key, isDescending: isOrder ? !order.isDescending : Boolean(column.isRight || column.isNewestFirst) };
  return html`<th scope="col" class=${classes(column)} aria-sort=${direction}>
    <button type="button" onClick=${() => onOrder(next)}>${column.title}<span class="arrow" aria-hidden="true">${isOrder ? (order.isDescending ? "↓" : "↑") : ""}</span></button>
  </th>`;
}

function Spacer({ rows }) {
  // One cell: a span over columns that a narrow screen hides would give these their width back.
  return html`<tr class="spacer" aria-hidden="true" style=${{ height: `${rows * ROW_HEIGHT}px` }}><td></td></tr>`;
}

function Loading({ label }) {
  return html`<div class="panel" role="status" aria-label=${`Loading: ${label}`}>
    ${[90, 75, 82, 60, 70].map((width) => html`<div class="skeleton" key=${width} style=${{ width: `${width}%`, height: "18px" }}></div>`)}
  </div>`;
}

function classes({ isRight, option, isMain, isBrief }) {
  return [isMain ? "main" : "", isBrief ? "brief" : "", isRight ? "right" : "", option ? `opt-${option}` : ""].filter(Boolean).join(" ") || undefined;
}
