// page.js - what the page gains where scripts run: curves that zoom and share a cursor, tables that
// sort, all steps as CSV. Nothing here is needed to read the page.
(() => {
  "use strict";
  const all = (selector, from = document) => [...from.querySelectorAll(selector)];
  const dashes = [[], [7, 3], [2, 3], [9, 3, 2, 3], [4, 4], [12, 4]];
  const color = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

  // ---- numbers, as the rest of the page writes them ----
  const three = (value) => {
    const size = Math.abs(value);
    return value.toFixed(size >= 100 ? 0 : size >= 10 ? 1 : 2);
  };
  const rate = (value) => (value >= 1e6 ? three(value / 1e6) + "M" : value >= 1e4
    ? three(value / 1e3) + "K" : value.toFixed(value >= 100 ? 0 : 1));
  const bytes = (value) => (value >= 2 ** 30 ? three(value / 2 ** 30) + " GiB"
    : three(value / 2 ** 20) + " MiB");
  const formats = {
    loss: (value) => value.toFixed(3),
    speed: (value) => rate(value) + " tok/s",
    memory: (value) => (value === 0 ? "0" : bytes(value)),
  };

  // Ticks need no more digits than their distance has.
  const tickFormats = {
    loss: (value) => String(Number(value.toFixed(4))),
    speed: (value) => (value >= 1e4 ? Number((value / 1e3).toFixed(2)) + "K"
      : String(Number(value.toFixed(2)))),
    memory: (value) => (value === 0 ? "0" : value >= 2 ** 30 ? Number((value / 2 ** 30).toFixed(2))
      + " GiB" : Number((value / 2 ** 20).toFixed(2)) + " MiB"),
  };
  const powersOfTwo = Array.from({ length: 50 }, (unused, i) => 2 ** i);

  // ---- curves ----
  const charts = JSON.parse(document.getElementById("data").textContent);
  let plots = [];

  // Points of all curves on one axis of steps, null where a curve has none. All charts reach from
  // step 0 to the last one.
  const table = (chart) => uPlot.join([[[0, chart.last]]]
    .concat(chart.curves.map((curve) => [curve.x, curve.y])));

  const series = (curve) => {
    const stroke = color("--s" + curve.style);
    if (curve.dots) {
      return { label: curve.label, stroke, paths: () => null, spanGaps: true,
        points: { show: true, size: curve.x.length > 60 ? 3.5 : 7, fill: stroke } };
    }
    if (curve.faint) {
      return { label: curve.label, stroke, width: 1, alpha: 0.3, spanGaps: true,
        points: { show: false } };
    }
    return { label: curve.label, stroke, width: 1.8, spanGaps: true, dash: dashes[curve.style],
      points: { show: false } };
  };

  // Memory begins at zero; the others fill the height, flat ones with room around them.
  const range = (chart) => (plot, low, high) => {
    if (low === null) return [0, 1];
    if (chart.fromZero) return [0, high * 1.06];
    const flat = high - low < 1e-3 * Math.abs(high);
    const margin = flat ? 0.02 * Math.abs(high) : 0.06 * (high - low) || 1;
    return [low - margin, high + margin];
  };

  // The value under the cursor of each curve; where it has no point at that step, the nearest.
  const nearest = (values, index) => {
    for (let away = 0; away < values.length; away++) {
      for (const at of [index - away, index + away]) {
        if (values[at] !== undefined && values[at] !== null) return values[at];
      }
    }
    return null;
  };

  const readout = (chart, out) => (plot) => {
    const index = plot.cursor.idx;
    if (index === null || index === undefined) { out.textContent = ""; return; }
    const parts = chart.curves.map((curve, i) => {
      const value = curve.faint ? null : nearest(plot.data[i + 1], index);
      const name = [curve.tag, curve.label].filter(Boolean).join(" ");
      return value === null ? "" : `${name} ${formats[chart.id](value)}`.trim();
    });
    out.textContent = ["step " + plot.data[0][index]].concat(parts.filter(Boolean)).join("  \u00b7  ");
  };

  let zooming = false;
  const follow = (plot, key) => {
    if (key !== "x" || zooming) return;
    zooming = true;
    for (const other of plots) {
      if (other !== plot) other.setScale("x", { min: plot.scales.x.min, max: plot.scales.x.max });
    }
    zooming = false;
  };

  const draw = (chart) => {
    const figure = document.querySelector(`[data-chart="${chart.id}"]`);
    const place = figure.querySelector(".live");
    const plotBox = figure.querySelector(".plot");
    place.textContent = "";
    const out = document.createElement("div");
    out.className = "readout";
    place.append(out);
    const narrow = innerWidth <= 640;
    const axis = { stroke: color("--muted"), grid: { stroke: color("--rule"), width: 1 },
      ticks: { show: false }, font: "12px system-ui, sans-serif" };
    const plot = new uPlot({
      width: plotBox.clientWidth, height: plotBox.clientHeight,
      padding: [8, 24, 0, 0],
      scales: { x: { time: false, range: (u, low, high) => [low ?? 0, high > low ? high : low + 1] },
        y: { range: range(chart) } },
      axes: [{ ...axis, size: 24, gap: 4 }, { ...axis, size: narrow ? 60 : 72, gap: 8,
        ...(chart.id === "memory" ? { incrs: powersOfTwo } : {}),
        values: (u, ticks) => ticks.map(tickFormats[chart.id]) }],
      series: [{ label: "step" }].concat(chart.curves.map(series)),
      cursor: { sync: { key: "steps" }, drag: { x: true, y: false }, y: false,
        points: { size: 6 } },
      legend: { show: false },
      hooks: { setCursor: [readout(chart, out)], setScale: [follow] },
    }, table(chart), place);
    plotBox.classList.add("drawn");
    return plot;
  };

  const drawAll = () => {
    plots.forEach((plot) => plot.destroy());
    plots = [];
    plots = charts.filter((chart) => chart.curves.length > 0).map(draw);
  };

  if (typeof uPlot === "function") {
    document.documentElement.classList.add("scripted");
    drawAll();
    let pending = 0;
    let width = innerWidth;
    addEventListener("resize", () => {
      if (innerWidth === width) return;
      width = innerWidth;
      cancelAnimationFrame(pending);
      pending = requestAnimationFrame(drawAll);
    });
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawAll);
  }

  // ---- tables ----
  const cellValue = (row, column) => {
    const cell = row.cells[column];
    const raw = cell.dataset.v ?? cell.textContent.trim();
    const number = Number(raw.replace(/,/g, ""));
    return raw !== "" && Number.isFinite(number) ? number : raw;
  };

  const compare = (a, b) => (typeof a === "number" && typeof b === "number" ? a - b
    : typeof a === "number" ? -1 : typeof b === "number" ? 1 : a.localeCompare(b));

  const sort = (tableElement, column) => {
    const heads = all("thead th", tableElement);
    const down = heads[column].getAttribute("aria-sort") === "ascending";
    heads.forEach((head) => head.removeAttribute("aria-sort"));
    heads[column].setAttribute("aria-sort", down ? "descending" : "ascending");
    const body = tableElement.tBodies[0];
    const rows = [...body.rows].map((row) => [cellValue(row, column), row]);
    rows.sort((a, b) => (down ? compare(b[0], a[0]) : compare(a[0], b[0])));
    body.append(...rows.map((pair) => pair[1]));
  };

  const quote = (text) => (/[",\n]/.test(text) ? `"${text.replace(/"/g, '""')}"` : text);
  const rawSteps = (tableElement) => {
    const source = document.getElementById(tableElement.dataset.csv ?? "");
    return source ? source.textContent.trim() + "\n" : null;
  };
  const csvOf = (tableElement) => rawSteps(tableElement) ?? all("tr", tableElement)
    .map((row) => [...row.cells].map((cell) => quote(cell.textContent.trim())).join(",") + "\n").join("");

  const copy = async (text) => {
    try {
      await navigator.clipboard.writeText(text);
    } catch { // no clipboard for files in some browsers
      const area = document.createElement("textarea");
      area.value = text;
      document.body.append(area);
      area.select();
      document.execCommand("copy");
      area.remove();
    }
  };

  const showAll = (tableElement) => {
    const prefix = tableElement.tBodies[0].rows[0].id.replace(/\d+$/, "");
    const numeric = all("thead th", tableElement).map((head) => head.classList.contains("n"));
    const rows = rawSteps(tableElement).trim().split("\n").slice(1).map((line) => {
      const row = document.createElement("tr");
      line.split(",").forEach((text, i) => {
        const cell = document.createElement(i === 0 ? "th" : "td");
        cell.textContent = text;
        if (numeric[i]) cell.className = "n";
        row.append(cell);
      });
      row.id = prefix + row.cells[0].textContent;
      return row;
    });
    tableElement.tBodies[0].replaceChildren(...rows);
  };

  const addButton = (tools, text, action) => {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = text;
    button.addEventListener("click", () => action(button));
    tools.append(button);
  };

  for (const tableElement of all("table[data-name]")) {
    all("thead th", tableElement).forEach((head, column) => {
      const button = document.createElement("button");
      button.type = "button";
      button.append(...head.childNodes);
      button.addEventListener("click", () => sort(tableElement, column));
      head.append(button);
    });
    const tools = document.createElement("div");
    tools.className = "tools";
    addButton(tools, "Copy as CSV", async (button) => {
      await copy(csvOf(tableElement));
      button.textContent = "Copied";
      setTimeout(() => { button.textContent = "Copy as CSV"; }, 1500);
    });
    const steps = rawSteps(tableElement);
    if (steps && steps.split("\n").length - 2 > tableElement.tBodies[0].rows.length) {
      addButton(tools, "Show all steps", (button) => { showAll(tableElement); button.remove(); });
    }
    tableElement.closest(".scroll").after(tools);
  }

  // A link to a row opens what holds it; to a step that is not shown, all steps.
  const reveal = () => {
    const name = decodeURIComponent(location.hash.slice(1));
    if (!name) return;
    let target = document.getElementById(name);
    const step = /^c(\d+)-step-\d+$/.exec(name);
    if (!target && step) {
      const tableElement = document.querySelector(`table[data-csv="csv-${step[1]}"]`);
      if (tableElement) showAll(tableElement);
      target = document.getElementById(name);
    }
    for (let at = target?.closest("details"); at; at = at.parentElement.closest("details")) at.open = true;
    target?.scrollIntoView({ block: "center" });
  };
  addEventListener("hashchange", reveal);
  reveal();
})();
