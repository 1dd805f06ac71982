// curves.js - what scripts add to the static pictures of curves: zoom, one cursor for all of
// them, selected curves in front. A zoomed picture is drawn again from
// the data, in the same elements and with the same style.
(() => {
  "use strict";
  const { all, formats } = window.btReport;
  const [WIDTH, HEIGHT] = [1000, 300]; // the box of the pictures
  const charts = JSON.parse(document.getElementById("data").textContent).map((chart) => ({
    ...chart, figure: document.querySelector(`[data-chart="${chart.id}"]`), format: formats[chart.id] }));
  if (charts.length === 0) return;
  const asked = new Set(); // tags of the selected curves, where there are many
  const many = charts.some((chart) => chart.curves.some((curve) => curve.quiet));
  for (const curve of charts.flatMap((chart) => chart.curves)) {
    let at = 0;
    curve.x = curve.dx.map((step) => (at += step));
  }
  const pathsOf = (chart) => all(".still svg path:not(.grid)", chart.figure);
  const isQuiet = (curve) => (asked.size > 0 ? !asked.has(curve.tag) : curve.quiet);

  // ---- drawing ----
  const last = Math.max(1, ...charts.map((chart) => chart.last));
  let [from, to] = [0, last]; // the steps in view

  // The first point at or after a step.
  const indexOf = (curve, step) => {
    let [low, high] = [0, curve.x.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (curve.x[middle] < step) low = middle + 1; else high = middle;
    }
    return low;
  };
  // The points in view, and one beyond each edge.
  const visible = (curve) => {
    const first = Math.max(0, indexOf(curve, from) - 1);
    const end = indexOf(curve, to) + 1;
    return curve.x.slice(first, end).map((x, i) => [x, curve.y[first + i], (curve.high ?? curve.y)[first + i]]);
  };
  const rangeOf = (chart, points) => {
    const values = points.flat();
    const high = values.reduce((most, point) => Math.max(most, point[2]), -Infinity);
    const low = chart.fromZero ? 0 : values.reduce((least, point) => Math.min(least, point[1]), Infinity);
    if (!(low <= high)) return [0, 1];
    const margin = 0.06 * (high - low) > 1e-3 * Math.abs(high) ? 0.06 * (high - low)
      : 0.02 * Math.abs(high) || 1;
    return [chart.fromZero ? 0 : low - margin, high + margin];
  };
  // 1, 2 or 5 times a power of ten, so that about `wanted` ticks fill the range.
  const ticksOf = (low, high, wanted, unit) => {
    const raw = (high - low) / wanted / unit;
    const power = 10 ** Math.floor(Math.log10(raw));
    const lead = [1, 2, 5, 10].find((one) => raw / power < one * 1.5);
    const step = unit * lead * power;
    const first = Math.ceil(low / step);
    return Array.from({ length: Math.floor(high / step) - first + 1 }, (unused, i) => (first + i) * step);
  };
  const write = (axis, side, ticks) => axis.replaceChildren(...ticks.map(([share, text]) => {
    const label = document.createElement("span");
    label.style[side] = `${100 * share}%`;
    label.textContent = text;
    return label;
  }));
  const draw = (chart) => {
    const points = chart.curves.map(visible);
    const [bottom, top] = rangeOf(chart, points);
    const across = (x) => (x - from) / (to - from);
    const up = (y) => (y - bottom) / (top - bottom);
    const at = (x, y) => `${(WIDTH * across(x)).toFixed(1)} ${(HEIGHT * (1 - up(y))).toFixed(1)}`;
    pathsOf(chart).forEach((path, i) => {
      const dots = path.matches(".dots");
      const line = points[i].map(([x, y], k) => `${dots || k === 0 ? "M" : "L"}${at(x, y)}${dots ? "h0" : ""}`);
      const back = chart.curves[i].high ? points[i].map(([x, , high]) => `L${at(x, high)}`).reverse() : [];
      path.setAttribute("d", line.join("") + back.join("") + (back.length ? "Z" : ""));
    });
    const marks = ticksOf(bottom, top, 4, chart.id === "memory" ? 2 ** 30 : 1);
    const steps = ticksOf(from, to, 5, 1).filter(Number.isInteger);
    const still = chart.figure.querySelector(".still");
    still.classList.add("redrawn");
    still.querySelector(".grid").setAttribute("d", marks.map((y) => `M${at(from, y)}h${WIDTH}`).join(""));
    write(still.querySelector(".y"), "bottom", marks.map((y) => [up(y), chart.format.tick(y)]));
    write(still.querySelector(".x"), "left", steps.map((x) => [across(x), x]));
  };
  const whole = document.getElementById("whole");
  const show = (low, high) => {
    if (high - low < 2) return;
    [from, to] = [Math.max(0, low), Math.min(last, high)];
    charts.forEach(draw);
    whole.hidden = from === 0 && to === last;
  };
  whole.addEventListener("click", () => show(0, last));
  const usual = document.getElementById("usual"); // where some cases are much longer than most
  usual?.addEventListener("click", () => show(0, Number(usual.dataset.steps)));

  // ---- the cursor ----
  const nearest = (curve, step) => {
    const i = Math.min(indexOf(curve, step), curve.x.length - 1);
    return i > 0 && !(curve.x[i] - step < step - curve.x[i - 1]) ? i - 1 : i;
  };
  let place = 0.5; // of the cursor, as a fraction of the width
  const point = (share) => {
    place = Math.min(1, Math.max(0, share));
    const step = from + place * (to - from);
    const at = charts.flatMap((chart) => chart.curves).map((curve) => curve.x[nearest(curve, step)])
      .reduce((best, x) => (Math.abs(x - step) < Math.abs(best - step) ? x : best));
    for (const chart of charts) {
      const lines = chart.curves.filter((curve) => !isQuiet(curve)
        && (curve.shape === "line" || curve.shape === "dots"));
      const values = lines.map((curve) => [curve.tag, curve.label,
        chart.format.value(curve.y[nearest(curve, at)])].filter(Boolean).join(" "));
      chart.figure.querySelector(".readout").textContent = [`step ${at}`, ...values].join("  \u00b7  ");
      chart.figure.querySelector(".cursor").style.left = `${100 * (at - from) / (to - from)}%`;
    }
  };
  const leave = () => all(".readout").forEach((out) => { out.textContent = ""; });

  const keys = (event) => {
    const at = from + place * (to - from);
    const zoom = (factor) => show(at - (at - from) * factor, at + (to - at) * factor);
    const actions = { ArrowLeft: () => point(place - 0.02), ArrowRight: () => point(place + 0.02),
      "+": () => zoom(0.5), "=": () => zoom(0.5), "-": () => zoom(2), 0: () => show(0, last),
      Escape: () => show(0, last) };
    if (!actions[event.key] || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    actions[event.key]();
  };
  const add = (name, parent) => {
    const one = document.createElement("div");
    one.className = name;
    return parent.appendChild(one);
  };
  for (const { figure } of charts) {
    const plot = figure.querySelector(".plot");
    const over = add("over", plot);
    const selected = add("selected", over);
    add("cursor", over);
    add("readout", plot).setAttribute("aria-live", "polite");
    plot.tabIndex = 0;
    plot.setAttribute("role", "group");
    plot.setAttribute("aria-label", `${figure.querySelector("h3").textContent} over steps; arrow keys move the cursor`);
    plot.addEventListener("keydown", keys);
    const shareOf = (event) => (event.clientX - over.getBoundingClientRect().left) / over.clientWidth;
    let began = null; // where a drag began
    over.addEventListener("pointerdown", (event) => {
      began = shareOf(event);
      over.setPointerCapture(event.pointerId);
    });
    over.addEventListener("pointermove", (event) => {
      point(shareOf(event));
      if (began === null) return;
      selected.style.left = `${100 * Math.min(began, place)}%`;
      selected.style.width = `${100 * Math.abs(place - began)}%`;
    });
    over.addEventListener("pointerup", () => {
      const ends = [began, place].sort((a, b) => a - b).map((share) => from + share * (to - from));
      if (Math.abs(place - began) > 0.01) show(...ends);
      began = null;
      selected.style.width = "0";
    });
    over.addEventListener("pointerleave", leave);
    over.addEventListener("dblclick", () => show(0, last));
  }

  // ---- legends: with many curves, each can be selected ----
  const paintLegends = () => {
    for (const chart of charts) {
      pathsOf(chart).forEach((path, i) => path.classList.toggle("quiet", isQuiet(chart.curves[i])));
    }
    for (const item of all(".legend [data-tag]")) {
      const curve = charts[0].curves.find((one) => one.tag === item.dataset.tag);
      item.classList.toggle("quiet", curve !== undefined && isQuiet(curve));
      item.querySelector("button").setAttribute("aria-pressed", String(asked.has(item.dataset.tag)));
    }
  };
  for (const item of many ? all(".legend [data-tag]") : []) {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...item.childNodes);
    button.addEventListener("click", () => {
      if (!asked.delete(item.dataset.tag)) asked.add(item.dataset.tag);
      paintLegends();
    });
    item.append(button);
  }
  if (many) paintLegends();
})();
