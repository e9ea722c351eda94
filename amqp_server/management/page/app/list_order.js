// Order of a list's rows, as the address has it. Pure functions.

/**
 * Return {key, isDescending}: what the address says, or the first column of the list.
 *
 * Args:
 *   query: Of the address; `sort` is the column, `down` is "1" for the greatest value first.
 *   columns: Of the table; `isNewestFirst` means that the greatest value is first unless the address says otherwise.
 */
export function listOrder(query, columns) {
  const key = query.sort ?? columns[0].key;
  if (query.sort !== undefined) return { key, isDescending: query.down === "1" };
  return { key, isDescending: query.down === undefined ? Boolean(columns[0].isNewestFirst) : query.down === "1" };
}
