// curves.js - uPlot in the place of the still pictures: zoom, one cursor for all charts, curves that
// step forward when asked for. Where uPlot is missing, the pictures stay.
(() => {
  "use strict";
  const { all, color, formats } = window.btReport;
  if (typeof uPlot !== "function") return;
  const dashes = [[], [7, 3], [2, 3], [9, 3, 2, 3], [4, 4], [12, 4]];
  const powersOfTwo = Array.from({ length: 50 }, (unused, i) => 2 ** i);
  const wholeSteps = [1, 2, 5].flatMap((lead) => Array.from({ length: 10 }, (unused, i) => lead * 10 ** i))
    .sort((a, b) => a - b);
  const charts = JSON.parse(document.getElementById("data").textContent);
  const asked = new Set(); // tags of the curves that were asked for, where there are many
  const many = charts.some((chart) => chart.curves.some((curve) => curve.quiet));
  let plots = [];
  for (const curve of charts.flatMap((chart) => chart.curves)) {
    let at = 0;
    curve.x = curve.dx.map((step) => (at += step));
  }

  // ---- data and looks ----
  // Points of all curves on one axis of steps, null where a curve has none. All charts reach from
  // step 0 to the last one. A band has two series: its lower and its upper edge.
  const columns = (chart) => chart.curves.flatMap((curve) => (curve.high
    ? [{ curve, y: curve.y }, { curve, y: curve.high }] : [{ curve, y: curve.y }]));
  const table = (chart) => uPlot.join([[[0, chart.last]]]
    .concat(columns(chart).map((column) => [column.curve.x, column.y])));

  const isQuiet = (curve) => (asked.size > 0 ? !asked.has(curve.tag) : curve.quiet);
  const series = ({ curve }) => {
    const quiet = isQuiet(curve);
    const stroke = quiet ? color("--muted") : color("--s" + curve.style);
    const base = { label: curve.label, stroke, spanGaps: true, points: { show: false } };
    if (curve.shape === "dots" || (curve.x.length === 1 && !curve.high)) {
      return { ...base, paths: () => null, show: !quiet,
        points: { show: true, size: curve.x.length > 60 ? 3.5 : 7, fill: stroke } };
    }
    if (curve.shape === "band") return { ...base, width: 0, show: !quiet };
    if (curve.shape === "faint") return { ...base, width: 1, alpha: quiet ? 0.1 : 0.3 };
    return { ...base, width: quiet ? 1 : 1.8, alpha: quiet ? 0.45 : 1,
      dash: quiet ? [] : dashes[curve.style] };
  };
  const bands = (chart) => columns(chart).flatMap((column, i, list) => (
    column.curve.high && list[i + 1]?.curve === column.curve
      ? [{ series: [i + 2, i + 1], fill: color("--s" + column.curve.style) + "2e" }] : []));

  // Memory begins at zero; the others fill the height, flat ones with room around them.
  const range = (chart) => (plot, low, high) => {
    if (low === null) return [0, 1];
    if (chart.fromZero) return [0, high * 1.06];
    const flat = high - low < 1e-3 * Math.abs(high);
    const margin = flat ? 0.02 * Math.abs(high) : 0.06 * (high - low) || 1;
    return [low - margin, high + margin];
  };

  // ---- the cursor ----
  // The value of a curve at a step; where it has no point there, the nearest.
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
    const parts = columns(chart).map(({ curve }, i) => {
      const hidden = curve.shape === "faint" || curve.shape === "band" || isQuiet(curve);
      const value = hidden ? null : nearest(plot.data[i + 1], index);
      const name = [curve.tag, curve.label].filter(Boolean).join(" ");
      return value === null ? "" : `${name} ${formats[chart.id].value(value)}`.trim();
    });
    out.textContent = ["step " + plot.data[0][index]].concat(parts.filter(Boolean)).join("  \u00b7  ");
  };

  // ---- zoom ----
  const last = Math.max(1, ...charts.map((chart) => chart.last));
  const whole = document.getElementById("whole");
  let view = null; // [from, to] in steps; null: all
  let following = false;
  const show = (from, to) => {
    view = from <= 0 && to >= last ? null : [Math.max(0, from), Math.min(last, to)];
    following = true;
    for (const plot of plots) plot.setScale("x", { min: view ? view[0] : 0, max: view ? view[1] : last });
    following = false;
    if (whole) whole.hidden = view === null;
  };
  const follow = (plot, key) => {
    if (key === "x" && !following) show(plot.scales.x.min, plot.scales.x.max);
  };
  whole?.addEventListener("click", () => show(0, last));

  const keys = (plot) => (event) => {
    const [from, to] = view ?? [0, last];
    const width = plot.over.clientWidth;
    const left = plot.cursor.left >= 0 ? plot.cursor.left : width / 2;
    const at = from + (to - from) * left / width;
    const move = (by) => plot.setCursor({ left: Math.min(width, Math.max(0, left + by)), top: 1 },
      true, true); // tells its readout, and the other charts
    const zoom = (factor) => show(at - (at - from) * factor, at + (to - at) * factor);
    const actions = { ArrowLeft: () => move(-width / 50), ArrowRight: () => move(width / 50),
      "+": () => zoom(0.5), "=": () => zoom(0.5), "-": () => zoom(2), 0: () => show(0, last),
      Escape: () => show(0, last) };
    if (!actions[event.key] || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    actions[event.key]();
  };

  // ---- drawing ----
  const draw = (chart) => {
    const figure = document.querySelector(`[data-chart="${chart.id}"]`);
    const place = figure.querySelector(".live");
    const plotBox = figure.querySelector(".plot");
    place.textContent = "";
    const out = document.createElement("div");
    out.className = "readout";
    out.setAttribute("aria-live", "polite");
    place.append(out);
    const narrow = innerWidth <= 640;
    const axis = { stroke: color("--muted"), grid: { stroke: color("--rule"), width: 1 },
      ticks: { show: false }, font: "12px system-ui, sans-serif" };
    const plot = new uPlot({
      width: plotBox.clientWidth, height: plotBox.clientHeight,
      padding: [8, 24, 0, 0],
      scales: { x: { time: false, range: (u, low, high) => [low ?? 0, high > low ? high : low + 1] },
        y: { range: range(chart) } },
      axes: [{ ...axis, size: 24, gap: 4, incrs: wholeSteps }, { ...axis, size: narrow ? 60 : 72, gap: 8,
        ...(chart.id === "memory" ? { incrs: powersOfTwo } : {}),
        values: (u, ticks) => ticks.map(formats[chart.id].tick) }],
      series: [{ label: "step" }].concat(columns(chart).map(series)),
      bands: bands(chart),
      cursor: { sync: { key: "steps" }, drag: { x: true, y: false }, y: false,
        points: { size: 6 } },
      legend: { show: false },
      hooks: { setCursor: [readout(chart, out)], setScale: [follow] },
    }, table(chart), place);
    plotBox.tabIndex = 0;
    plotBox.setAttribute("role", "group");
    plotBox.setAttribute("aria-label", figure.querySelector("h3").textContent
      + " over steps; arrow keys move the cursor");
    plotBox.onkeydown = keys(plot);
    plotBox.classList.add("drawn");
    return plot;
  };
  const drawAll = () => {
    following = true;
    plots.forEach((plot) => plot.destroy());
    plots = [];
    plots = charts.filter((chart) => chart.curves.length > 0).map(draw);
    following = false;
    if (view) show(...view);
  };

  // ---- legends: with many curves, each can be asked for ----
  const paintLegends = () => {
    for (const item of all(".legend [data-tag]")) {
      const curve = charts[0].curves.find((one) => one.tag === item.dataset.tag);
      item.classList.toggle("quiet", curve !== undefined && isQuiet(curve));
      item.querySelector("button")?.setAttribute("aria-pressed", String(asked.has(item.dataset.tag)));
    }
  };
  if (many) {
    for (const item of all(".legend [data-tag]")) {
      const button = document.createElement("button");
      button.type = "button";
      button.append(...item.childNodes);
      button.addEventListener("click", () => {
        const tag = item.dataset.tag;
        if (!asked.delete(tag)) asked.add(tag);
        paintLegends();
        drawAll();
      });
      item.append(button);
    }
    paintLegends();
  }

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
})();
