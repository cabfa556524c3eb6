// What HTML and htmx cannot do by themselves: charts, how long ago a time was, and the number beside a slider.
"use strict";

const UNITS = [["d", 86400], ["h", 3600], ["min", 60], ["s", 1]];

function draw(chart) {
  const [times, used, quotas] = JSON.parse(chart.dataset.points);
  const now = Date.now() / 1000;
  const last = times.length - 1;
  const data = [[...times, Math.max(now, times[last])], [...used, used[last]], [...quotas, quotas[last]]];
  const style = getComputedStyle(chart);
  const colour = (name) => style.getPropertyValue(name).trim();
  const stepped = uPlot.paths.stepped({ align: 1 });
  chart.replaceChildren();
  new uPlot({
    width: 150, height: 48,
    legend: { show: false }, cursor: { show: false }, select: { show: false },
    axes: [{ show: false }, { show: false }],
    scales: { x: { time: true }, y: { range: (_, low, high) => [0, high || 1] } },
    series: [
      {},
      { stroke: colour("--taken"), fill: colour("--soft"), width: 2, paths: stepped, points: { show: false } },
      { stroke: colour("--quota"), width: 1, dash: [4, 3], paths: stepped, points: { show: false } },
    ],
  }, data, chart);
}

function age(time) {
  const seconds = Math.max(0, Math.floor((Date.now() - Date.parse(time.dateTime.replace(" ", "T"))) / 1000));
  const [unit, length] = UNITS.find(([, length]) => seconds >= length) || UNITS[3];
  time.textContent = `${Math.floor(seconds / length)} ${unit}`;
}

function prepare(part) {
  part.querySelectorAll(".chart:empty").forEach(draw);
}

document.addEventListener("DOMContentLoaded", () => prepare(document));
document.addEventListener("htmx:load", (event) => prepare(event.detail.elt.parentElement || document));
document.addEventListener("input", (event) => {
  const shown = event.target.type === "range" && event.target.parentElement.querySelector("output");
  if (shown) shown.value = event.target.value;
});
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => document.querySelectorAll(".chart").forEach(draw));
setInterval(() => document.querySelectorAll("td time[datetime]").forEach(age), 10000);
