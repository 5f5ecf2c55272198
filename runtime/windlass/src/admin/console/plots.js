// Small plots of the last hour, and the squares of the clusters. Entry points: plot and squares.

const SVG = "http://www.w3.org/2000/svg";
const MINUTES = 61;
const [WIDTH, HEIGHT] = [122, 24];

// One number a minute, the newest at the right. `said` is what a reader without the picture hears.
export function plot(numbers, tone, said) {
  const svg = document.createElementNS(SVG, "svg");
  svg.setAttribute("viewBox", `0 0 ${WIDTH} ${HEIGHT}`);
  svg.setAttribute("class", `plot ${tone}`);
  svg.setAttribute("role", "img");
  const title = document.createElementNS(SVG, "title");
  title.textContent = said;
  const most = Math.max(...numbers, 0);
  // A single minute is a short line.
  const shown = numbers.length === 1 ? [...numbers, ...numbers] : numbers;
  const left = MINUTES - shown.length;
  const at = (number, index) => {
    const x = ((left + index) * WIDTH) / (MINUTES - 1);
    const y = HEIGHT - 2 - (most ? (number / most) * (HEIGHT - 4) : 0);
    return `${x.toFixed(1)},${y.toFixed(1)}`;
  };
  const line = document.createElementNS(SVG, "polyline");
  line.setAttribute("points", shown.map(at).join(" "));
  svg.append(title, line);
  return svg;
}

// A square for each colour, as many as there are: smaller ones the more there are. Returns what is under a point of the canvas.
export function squares(canvas, colours) {
  const width = canvas.clientWidth;
  const side = colours.length > 4000 ? 6 : colours.length > 400 ? 9 : 14;
  const row = Math.max(1, Math.floor(width / side));
  const rows = Math.ceil(colours.length / row);
  const scale = window.devicePixelRatio || 1;
  canvas.width = width * scale;
  canvas.height = rows * side * scale;
  canvas.style.height = `${rows * side}px`;
  const context = canvas.getContext("2d");
  context.scale(scale, scale);
  colours.forEach((colour, index) => {
    context.fillStyle = colour;
    context.fillRect((index % row) * side, Math.floor(index / row) * side, side - 1, side - 1);
  });
  return (x, y) => Math.floor(y / side) * row + Math.min(row - 1, Math.floor(x / side));
}
