// What HTML and htmx cannot do by themselves: charts, ages that go on, the number beside a slider, lost connections.
"use strict";

const UNITS = [["d", 86400], ["h", 3600], ["min", 60], ["s", 1]];

// --- charts: data-points has lists of times and of values, data-series the token of each list's colour ---------------

function clock(seconds) {
  return new Date(seconds * 1000).toISOString().slice(11, 16);
}

function draw(chart) {
  const points = JSON.parse(chart.dataset.points);
  const [times, ...values] = points;
  const isLarge = chart.hasAttribute("data-axes");
  const last = times.length - 1;
  const now = Math.max(nowSeconds(), times[last]);
  const data = [[...times, now], ...values.map((list) => [...list, list[last]])];
  const style = getComputedStyle(chart);
  const colour = (name) => style.getPropertyValue(name).trim();
  const names = (chart.dataset.series || "--used --quota").split(" ");
  const labels = (chart.dataset.labels || "").split("|");
  const stepped = uPlot.paths.stepped({ align: 1 });
  const axis = { show: isLarge, stroke: colour("--muted"), font: "12px system-ui", grid: { stroke: colour("--line"), width: 1 }, ticks: { show: false } };
  chart.replaceChildren();
  new uPlot({
    width: chart.clientWidth || 150, height: chart.clientHeight || 48,
    legend: { show: isLarge && labels.length > 1 }, cursor: { show: isLarge, drag: { x: false, y: false } }, select: { show: false },
    tzDate: (seconds) => uPlot.tzDate(new Date(seconds * 1000), "Etc/UTC"),
    axes: [{ ...axis, space: 70, size: 28, values: (_, seconds) => seconds.map(clock) }, { ...axis, size: 44 }],
    scales: { x: { time: true }, y: { range: (_, low, high) => [0, high * 1.05 || 1] } },
    series: [
      { value: "{YYYY}-{MM}-{DD} {HH}:{mm}" },
      ...values.map((_, number) => ({
        label: labels[number], stroke: colour(names[number]), width: number ? 1.5 : 2, dash: number ? [4, 3] : undefined,
        fill: number ? undefined : colour("--soft"), paths: stepped, points: { show: false },
      })),
    ],
  }, data, chart);
}

// --- ages: of a source that stands still they are those at its time, and do not go on --------------------------------

const AHEAD = Number(document.body.dataset.at) - Date.now() / 1000; // of the server's clock, in seconds

function nowSeconds() {
  return Number(document.body.dataset.now) || Date.now() / 1000 + AHEAD;
}

function age(time) {
  const seconds = Math.max(0, Math.floor(nowSeconds() - Date.parse(time.dateTime.replace(" ", "T")) / 1000));
  const [unit, length] = UNITS.find(([, length]) => seconds >= length) || UNITS[3];
  const text = `${Math.floor(seconds / length)} ${unit}`;
  if (time.textContent !== text) time.textContent = text;
}

function keepAges() {
  if (document.body.dataset.now) return;
  document.querySelectorAll("time[datetime].age, td time[datetime]:not(.at), .state time[datetime]").forEach(age);
}

// --- lost connections: the header tells why the page is not live, and what to do -------------------------------------

const LOST = "The page has lost its connection to volsched ui and shows the cluster as it was. It tries again every few seconds. If that does not help, see whether volsched ui still runs; after a new start, open the link that it prints.";
const REFUSED = "volsched ui no longer accepts this browser. Open the link that it printed at its last start, or log in again; then load this page anew.";
let isStreamBroken = false;

function trouble(text) {
  const [state, box] = [document.getElementById("state"), document.getElementById("trouble")];
  if ((box.textContent !== "") === (text !== "") && box.textContent === text) return;
  box.replaceChildren();
  if (text) {
    const notice = document.createElement("p");
    notice.className = "notice";
    notice.textContent = text;
    box.append(notice);
  }
  const word = state.querySelector("strong");
  word.dataset.usual = word.dataset.usual || word.textContent;
  word.textContent = text ? "Not live" : word.dataset.usual;
  state.className = `state ${text ? "broken" : state.dataset.kind}`;
}

document.addEventListener("htmx:sendError", () => trouble(LOST));
document.addEventListener("htmx:responseError", (event) => {
  if (event.target.id === "state") trouble([401, 403].includes(event.detail.xhr.status) ? REFUSED : LOST);
});
document.addEventListener("htmx:afterOnLoad", (event) => {
  if (event.detail.pathInfo.requestPath.startsWith("/state") && event.detail.successful && !isStreamBroken) trouble("");
});
document.addEventListener("htmx:sseError", () => {
  isStreamBroken = true;
  trouble(LOST);
});
document.addEventListener("htmx:sseOpen", () => {
  isStreamBroken = false;
  trouble("");
});

// --- commands to copy ------------------------------------------------------------------------------------------------

document.addEventListener("click", async (event) => {
  const button = event.target.closest("button[data-copy]");
  if (!button) return;
  await navigator.clipboard.writeText(document.getElementById(button.dataset.copy).textContent);
  button.textContent = "Copied";
  setTimeout(() => { button.textContent = "Copy"; }, 2000);
});

// --- everything together ---------------------------------------------------------------------------------------------

function prepare(part) {
  part.querySelectorAll(".chart:empty").forEach(draw);
  if (navigator.clipboard) part.querySelectorAll("button[data-copy][hidden]").forEach((button) => { button.hidden = false; });
}

document.addEventListener("DOMContentLoaded", () => prepare(document));
document.addEventListener("htmx:load", (event) => prepare(event.detail.elt.parentElement || document));
document.addEventListener("input", (event) => {
  const shown = event.target.type === "range" && event.target.parentElement.querySelector("output");
  if (shown) shown.value = event.target.value;
});
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => document.querySelectorAll(".chart").forEach(draw));
setInterval(keepAges, 1000);

// --- the node map: the first tap on a card shows its holder, the second one opens the job ----------------------------

let tapped = null;
document.addEventListener("click", (event) => {
  const run = event.target.closest("a.run");
  if (run && event.pointerType === "touch" && run !== tapped) {
    event.preventDefault();
    run.focus();
  }
  tapped = run;
});
