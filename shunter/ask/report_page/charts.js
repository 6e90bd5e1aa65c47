// Pictures on canvases: lines over a linear or logarithmic axis, and stacked areas.
// `dataset.marks` of a canvas says how many lines, areas or slices were drawn on it.

const COLORS = ["#2563ab", "#c2571a", "#2f7d4f", "#8b3f96", "#a3811a", "#b0325e", "#3f8f9b", "#6b6b6b"];
const WIDTH = 820, HEIGHT = 240;
const FRAME = { left: 64, right: 12, top: 10, bottom: 32 };

function element(name, className, text) {
  const made = document.createElement(name);
  if (className) made.className = className;
  if (text !== undefined) made.textContent = text;
  return made;
}

function canvasOf(width, height, label) {
  const canvas = element("canvas");
  const scale = window.devicePixelRatio || 1;
  canvas.width = width * scale;
  canvas.height = height * scale;
  canvas.style.width = `${width}px`;
  canvas.style.height = `${height}px`;
  canvas.setAttribute("role", "img");
  canvas.setAttribute("aria-label", label);
  const context = canvas.getContext("2d");
  context.scale(scale, scale);
  context.font = "11px system-ui, sans-serif";
  return [canvas, context];
}

function legend(names, colors) {
  const list = element("ul", "legend");
  names.forEach((name, i) => {
    const item = element("li");
    const mark = element("span", "mark");
    mark.style.background = colors[i];
    item.append(mark, element("span", "", name));
    list.append(item);
  });
  return list;
}

// Round steps of an axis: 1, 2 or 5 times a power of ten, about five of them.
function ticks(most) {
  if (!(most > 0)) return [0];
  const power = 10 ** Math.floor(Math.log10(most / 5));
  const step = [1, 2, 5, 10].map((each) => each * power).find((each) => most / each <= 5.01);
  const found = [];
  for (let value = 0; value <= most * 1.0001; value += step) found.push(value);
  return found;
}

function timeTicks(most) {
  const steps = [1, 5, 15, 60, 300, 900, 3600, 10800, 43200, 86400, 432000, 864000, 2592000];
  const step = steps.find((each) => most / each <= 8) || most / 8;
  const found = [];
  for (let value = 0; value <= most; value += step) found.push(value);
  return found;
}

function logTicks(least, most) {
  const round = [1, 10, 60, 600, 3600, 36000, 86400, 864000, 8640000];
  return round.filter((each) => each >= least && each <= most);
}

function axes(context, x, y, xTicks, yTicks, xText, yText) {
  context.strokeStyle = "#d8d8d8";
  context.fillStyle = "#555";
  context.lineWidth = 1;
  for (const value of yTicks) {
    const at = Math.round(y(value)) + 0.5;
    line(context, FRAME.left, at, WIDTH - FRAME.right, at);
    context.textAlign = "right";
    context.fillText(yText(value), FRAME.left - 6, at + 4);
  }
  for (const value of xTicks) {
    const at = Math.round(x(value)) + 0.5;
    line(context, at, FRAME.top, at, HEIGHT - FRAME.bottom);
    context.textAlign = "center";
    context.fillText(xText(value), at, HEIGHT - FRAME.bottom + 16);
  }
}

function line(context, x1, y1, x2, y2) {
  context.beginPath();
  context.moveTo(x1, y1);
  context.lineTo(x2, y2);
  context.stroke();
}

// series: [{name, x: [...], y: [... or null]}]; options: {log, most, xText, yText, label}
function lineChart(series, options) {
  const figure = element("figure");
  const [canvas, context] = canvasOf(WIDTH, HEIGHT, options.label);
  const xs = series.flatMap((each) => each.x), ys = series.flatMap((each) => each.y);
  const known = ys.filter((value) => value !== null);
  const xMost = xs.reduce((a, b) => Math.max(a, b), options.log ? 1 : 0);
  const xLeast = options.log ? Math.max(1, xs.reduce((a, b) => Math.min(a, b), xMost)) : 0;
  const yMost = options.most || known.reduce((a, b) => Math.max(a, b), 0) || 1;
  const inner = WIDTH - FRAME.left - FRAME.right, high = HEIGHT - FRAME.top - FRAME.bottom;
  const place = options.log
    ? (value) => Math.log(Math.max(value, xLeast) / xLeast) / (Math.log(xMost / xLeast) || 1)
    : (value) => value / (xMost || 1);
  const x = (value) => FRAME.left + inner * place(value);
  const y = (value) => FRAME.top + high * (1 - value / yMost);
  axes(context, x, y, options.log ? logTicks(xLeast, xMost) : timeTicks(xMost), ticks(yMost),
    options.xText || duration, options.yText || number);
  series.forEach((each, i) => {
    context.strokeStyle = COLORS[i % COLORS.length];
    context.lineWidth = 1.6;
    context.beginPath();
    let isDown = false;
    each.x.forEach((value, j) => {
      if (each.y[j] === null) { isDown = false; return; }
      if (isDown) context.lineTo(x(value), y(each.y[j])); else context.moveTo(x(value), y(each.y[j]));
      isDown = true;
    });
    context.stroke();
  });
  canvas.dataset.marks = series.filter((each) => each.x.length).length;
  figure.append(canvas, legend(series.map((each) => each.name), COLORS));
  return figure;
}

// bands: {name: [count for each part]}
function stackedChart(bands, partSeconds, label) {
  const figure = element("figure");
  const [canvas, context] = canvasOf(WIDTH, HEIGHT, label);
  const names = Object.keys(bands), parts = names.length ? bands[names[0]].length : 0;
  const totals = Array.from({ length: parts }, (_, i) => names.reduce((sum, name) => sum + bands[name][i], 0));
  const most = totals.reduce((a, b) => Math.max(a, b), 0) || 1;
  const span = parts * partSeconds;
  const x = (value) => FRAME.left + (WIDTH - FRAME.left - FRAME.right) * (value / (span || 1));
  const y = (value) => FRAME.top + (HEIGHT - FRAME.top - FRAME.bottom) * (1 - value / most);
  const below = new Array(parts).fill(0);
  names.forEach((name, i) => {
    context.fillStyle = COLORS[i % COLORS.length];
    bands[name].forEach((count, part) => {
      if (!count) return;
      const left = x(part * partSeconds), top = y(below[part] + count);
      context.fillRect(left, top, x((part + 1) * partSeconds) - left + 0.5, y(below[part]) - top);
      below[part] += count;
    });
  });
  axes(context, x, y, timeTicks(span), ticks(most), duration, number);
  canvas.dataset.marks = names.length;
  figure.append(canvas, legend(names, COLORS));
  return figure;
}
