// Which columns of a table have room: the first one names the row, so the others give way to it.

/** Pixels that the column with the row's name has at least. */
export const NAME_WIDTH_MIN = 220;
const BOX_WIDTH = 38;

/**
 * The columns that leave the name its width.
 *
 * Those with the highest `option` go first, and of these the last one; a column without `option` stays.
 *
 * Args:
 *   columns: Of `Table`, each with `width` in pixels or `isMain`.
 *   width: Pixels of the table's place.
 *   hasBoxes: Whether each row begins with a box.
 */
export function fittingColumns(columns, width, hasBoxes = false) {
  const fitting = [...columns];
  const widthOf = (column) => column.width ?? NAME_WIDTH_MIN;
  let needed = fitting.reduce((sum, column) => sum + widthOf(column), hasBoxes ? BOX_WIDTH : 0);
  const leaving = columns.filter(({ option }) => option).reverse().sort((one, other) => other.option - one.option);
  for (const column of leaving) {
    if (needed <= width) break;
    fitting.splice(fitting.indexOf(column), 1);
    needed -= widthOf(column);
  }
  return fitting;
}
