// The order of a list's rows. Pure functions.

const NAMES = new Intl.Collator("en", { numeric: true, sensitivity: "base" });

/** Sort a copy of the rows by a value of each; empty values come last in both directions. */
export function sorted(rows, valueOf, isDescending) {
  const keyed = rows.map((row, place) => ({ row, place, value: valueOf(row) }));
  const isText = keyed.some(({ value }) => typeof value === "string");
  // A collator costs much in the thousands: names in plain ASCII without digits need none.
  const texts = isText && keyed.every(({ value }) => /^[a-z._ -]*$/.test(value ?? ""))
    ? (left, right) => (left < right ? -1 : left > right ? 1 : 0)
    : NAMES.compare;
  const direction = isDescending ? -1 : 1;
  keyed.sort((left, right) => {
    const leftEmpty = isEmpty(left.value);
    const rightEmpty = isEmpty(right.value);
    if (leftEmpty || rightEmpty) return leftEmpty - rightEmpty || left.place - right.place;
    const order = isText ? texts(String(left.value), String(right.value)) : left.value - right.value;
    return order * direction || left.place - right.place;
  });
  return keyed.map(({ row }) => row);
}

function isEmpty(value) {
  return value === undefined || value === null || value === "" || Number.isNaN(value);
}
