// The line of a small trend. Pure functions.

const WIDTH = 88;
const TOP = 2;
const HEIGHT = 18;

/** The `d` of an SVG path, 88 by 22, of points [time, value] in the order of time; null for a value breaks the line. */
export function sparkPath(points) {
  const known = points.filter(([, value]) => value !== null);
  const values = known.map(([, value]) => value);
  const low = Math.min(...values);
  const high = Math.max(...values);
  const from = points[0][0];
  const span = points[points.length - 1][0] - from || 1;
  let command = "M";
  let path = "";
  for (const [time, value] of points) {
    if (value === null) {
      command = "M";
      continue;
    }
    const x = ((time - from) / span) * WIDTH;
    const y = high === low ? TOP + HEIGHT / 2 : TOP + HEIGHT - ((value - low) / (high - low)) * HEIGHT;
    path += `${command}${x.toFixed(1)} ${y.toFixed(1)}`;
    command = "L";
  }
  return path;
}
