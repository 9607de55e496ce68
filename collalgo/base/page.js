// Tables that can be sorted and filtered, and charts that can be zoomed and switched.
"use strict";

function sortTable(table, column, button) {
  const head = button.closest("th"), body = table.tBodies[0];
  const down = head.getAttribute("aria-sort") === "ascending";
  for (const other of table.querySelectorAll("th")) other.removeAttribute("aria-sort");
  head.setAttribute("aria-sort", down ? "descending" : "ascending");
  const key = row => {
    const cell = row.cells[column], value = cell.dataset.value ?? cell.textContent;
    const number = value === "" ? NaN : Number(value);
    return Number.isNaN(number) ? value : number;
  };
  const empty = value => value === "";
  const order = (a, b) => {
    const x = key(a), y = key(b);
    if (empty(x) || empty(y)) return empty(x) - empty(y);
    const sign = typeof x === "number" && typeof y === "number"
      ? x - y : String(x).localeCompare(String(y), undefined, { numeric: true });
    return down ? -sign : sign;
  };
  body.append(...[...body.rows].sort(order));
}

function filterTable(table, words, count) {
  const wanted = words.toLowerCase().split(/\s+/).filter(Boolean);
  let shown = 0;
  for (const row of table.tBodies[0].rows) {
    const text = row.textContent.toLowerCase();
    row.hidden = !wanted.every(word => text.includes(word));
    shown += !row.hidden;
  }
  count.textContent = `${shown} of ${table.tBodies[0].rows.length} rows`;
}

for (const table of document.querySelectorAll("table.sortable")) {
  table.querySelectorAll("thead button").forEach((button, column) =>
    button.addEventListener("click", () => sortTable(table, column, button)));
  const search = document.querySelector(`input[data-table="${table.id}"]`);
  const count = document.querySelector(`output[data-table="${table.id}"]`);
  if (search) search.addEventListener("input", () => filterTable(table, search.value, count));
}

// The ticks of a logarithmic axis: powers of two in bytes, or multiples of powers of ten.
function ticksOf(low, high, most, inBytes) {
  const found = [], base = inBytes ? 2 : 10, log = value => Math.log(value) / Math.log(base);
  const first = Math.ceil(log(low) - 1e-9), last = Math.floor(log(high) + 1e-9);
  const step = Math.max(1, Math.ceil((last - first + 1) / most));
  for (let power = first; power <= last; power += step) found.push(base ** power);
  if (found.length > 2) return found;
  const size = 10 ** Math.floor(Math.log10(high - low) - 0.3);  // a few even steps instead
  const even = inBytes ? 2 ** Math.ceil(Math.log2((high - low) / most))
    : [1, 2, 5, 10].map(n => n * size).find(n => (high - low) / n <= most);
  return [...Array(Math.floor((high - low) / even) + 1).keys()]
    .map(n => (Math.ceil(low / even) + n) * even).filter(value => value <= high);
}

function inWords(value, inBytes) {
  if (!inBytes) return String(Number(value.toPrecision(4)));
  for (const [unit, size] of [["GiB", 2 ** 30], ["MiB", 2 ** 20], ["KiB", 2 ** 10]])
    if (value >= size) return `${Number((value / size).toPrecision(4))} ${unit}`;
  return `${Number(value.toPrecision(4))} B`;
}

// A chart: its ticks, and the part of it that is seen.
function zoomable(figure) {
  const svg = figure.querySelector("svg.whole"), inside = figure.querySelector("svg.inside");
  const ticks = figure.querySelector(".ticks"), frame = figure.querySelector(".frame");
  const of = name => Number(frame.getAttribute(name));
  const [left, top, width, height] = ["x", "y", "width", "height"].map(of);
  const [x0, x1] = svg.dataset.x.split(",").map(Number), [y0, y1] = svg.dataset.y.split(",").map(Number);
  const all = { x: 0, y: 0, w: width, h: height };
  let seen = { ...all };
  const add = (kind, attributes, words = "") => {
    const element = document.createElementNS("http://www.w3.org/2000/svg", kind);
    for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
    element.textContent = words;
    ticks.append(element);
  };
  function drawTicks() {
    const atX = part => x0 * (x1 / x0) ** part, atY = part => y0 * (y1 / y0) ** part;
    const lowX = atX(seen.x / width), highX = atX((seen.x + seen.w) / width);
    const lowY = atY(1 - (seen.y + seen.h) / height), highY = atY(1 - seen.y / height);
    ticks.replaceChildren();
    for (const value of ticksOf(lowX, highX, 8, true)) {
      const x = left + width * Math.log(value / lowX) / Math.log(highX / lowX);
      add("line", { class: "grid", x1: x, x2: x, y1: top, y2: top + height });
      add("text", { x, y: top + height + 15, "text-anchor": "middle" }, inWords(value, true));
    }
    for (const value of ticksOf(lowY, highY, 8, false)) {
      const y = top + height * (1 - Math.log(value / lowY) / Math.log(highY / lowY));
      add("line", { class: "grid", x1: left, x2: left + width, y1: y, y2: y });
      add("text", { x: left - 6, y: y + 4, "text-anchor": "end" }, inWords(value, false));
    }
  }
  const show = next => {
    const w = Math.min(Math.max(next.w, all.w / 40), all.w), h = w * all.h / all.w;
    seen = {
      x: Math.min(Math.max(next.x, 0), all.w - w), y: Math.min(Math.max(next.y, 0), all.h - h), w, h,
    };
    inside.setAttribute("viewBox", `${seen.x} ${seen.y} ${seen.w} ${seen.h}`);
    inside.style.setProperty("--zoom", all.w / w);
    drawTicks();
  };
  const zoom = (factor, u = 0.5, v = 0.5) => {
    const w = seen.w / factor, h = seen.h / factor;
    show({ x: seen.x + (seen.w - w) * u, y: seen.y + (seen.h - h) * v, w });
  };
  const pan = (u, v) => show({ ...seen, x: seen.x + u * seen.w, y: seen.y + v * seen.h });
  const keys = {
    "+": () => zoom(1.5), "=": () => zoom(1.5), "-": () => zoom(1 / 1.5), "0": () => show(all),
    ArrowLeft: () => pan(-0.1, 0), ArrowRight: () => pan(0.1, 0),
    ArrowUp: () => pan(0, -0.1), ArrowDown: () => pan(0, 0.1),
  };
  svg.addEventListener("keydown", event => {
    if (event.ctrlKey || event.metaKey || event.altKey || !keys[event.key]) return;
    keys[event.key]();
    event.preventDefault();
  });
  svg.addEventListener("wheel", event => {
    if (document.activeElement !== svg) return;  // the page scrolls until a chart is chosen
    const box = frame.getBoundingClientRect();
    zoom(event.deltaY < 0 ? 1.2 : 1 / 1.2, (event.clientX - box.left) / box.width,
      (event.clientY - box.top) / box.height);
    event.preventDefault();
  }, { passive: false });
  svg.addEventListener("pointermove", event => {
    if (!(event.buttons & 1)) return;
    const box = frame.getBoundingClientRect();
    pan(-event.movementX / box.width, -event.movementY / box.height);
  });
  for (const button of figure.querySelectorAll("button[data-key]"))
    button.addEventListener("click", () => keys[button.dataset.key]());
  drawTicks();
}
document.querySelectorAll("figure.chart").forEach(zoomable);

for (const box of document.querySelectorAll(".legend input")) {
  box.addEventListener("change", () => {
    const group = box.closest(".collective");
    for (const part of group.querySelectorAll(`g[data-line="${box.value}"]`))
      part.style.display = box.checked ? "" : "none";
  });
}

document.addEventListener("keydown", event => {
  const search = document.querySelector('input[type="search"]');
  if (event.key !== "/" || !search || event.target instanceof HTMLInputElement) return;
  search.focus();
  event.preventDefault();
});
