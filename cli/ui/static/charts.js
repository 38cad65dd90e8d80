// The last half hour, drawn by uPlot in the colours of the page.

const INTERVAL_MS = 15_000;
const HEIGHT = 96;
const place = document.getElementById("drawn");
const drawn = new Map(); // title -> {plot, latest}
let last = null;

const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const figure = (value) =>
  value == null ? "-" : value.toLocaleString("en", { maximumSignificantDigits: 3 });

function options(width) {
  const axis = {
    stroke: colour("--soft"),
    grid: { stroke: colour("--line"), width: 1 },
    ticks: { show: false },
    font: "11px system-ui, sans-serif",
  };
  return {
    width,
    height: HEIGHT,
    legend: { show: false },
    cursor: { show: false },
    scales: { y: { range: (_plot, _low, high) => [0, high > 0 ? high * 1.15 : 1] } },
    axes: [
      { ...axis, size: 22, values: (_plot, splits) => splits.map(clock) },
      { ...axis, size: 46, space: 28, values: (_plot, splits) => splits.map(figure) },
    ],
    series: [{}, { stroke: colour("--link"), fill: colour("--ok-ground"), width: 1.5 }],
  };
}

const clock = (seconds) =>
  new Date(seconds * 1000).toLocaleTimeString("en-GB", { hour: "2-digit", minute: "2-digit" });

function draw({ title, unit, values }, times) {
  let chart = drawn.get(title);
  if (!chart) {
    const box = document.createElement("div");
    box.className = "chart";
    const heading = document.createElement("h3");
    const latest = document.createElement("b");
    heading.append(title, latest);
    box.append(heading);
    place.append(box);
    const width = box.clientWidth - 2 * parseFloat(getComputedStyle(box).paddingLeft);
    chart = { latest, plot: new uPlot(options(width), [times, values], box) };
    drawn.set(title, chart);
  }
  chart.plot.setData([times, values]);
  chart.latest.textContent = `${figure(values.at(-1))} ${unit}`.trim();
}

function redraw() {
  if (!last) return;
  drawn.forEach(({ plot }) => plot.destroy());
  drawn.clear();
  place.replaceChildren();
  last.charts.forEach((chart) => draw(chart, last.times));
}

function say(text) {
  const line = document.createElement("p");
  line.className = "empty";
  line.textContent = text;
  drawn.clear();
  place.replaceChildren(line);
}

async function refresh() {
  try {
    const response = await fetch("/charts");
    if (!response.ok) return say(await response.text());
    if (drawn.size === 0) place.replaceChildren();
    last = await response.json();
    if (last.charts.length === 0) return say("No model is deployed.");
    last.charts.forEach((chart) => draw(chart, last.times));
  } catch {
    // The command has ended: live.js says so.
  }
}

matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
new ResizeObserver(redraw).observe(place.parentElement);
addEventListener("load", () => {
  refresh();
  setInterval(refresh, INTERVAL_MS);
});
