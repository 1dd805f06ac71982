// tables.js - tables sort by any column, copy as CSV, and show all rows where only some are shown
(() => {
  "use strict";
  const { all } = window.btReport;
  const cellValue = (row, column) => {
    const cell = row.cells[column];
    const raw = cell.dataset.v ?? cell.textContent.trim();
    const number = Number(raw.replace(/,| \u25b3$/g, ""));
    return raw !== "" && Number.isFinite(number) ? number : raw;
  };

  const compare = (a, b) => (typeof a === "number" && typeof b === "number" ? a - b
    : typeof a === "number" ? -1 : typeof b === "number" ? 1 : a.localeCompare(b));

  const sort = (tableElement, column) => {
    const heads = all("thead th", tableElement);
    const down = heads[column].getAttribute("aria-sort") === "ascending";
    heads.forEach((head) => head.removeAttribute("aria-sort"));
    heads[column].setAttribute("aria-sort", down ? "descending" : "ascending");
    for (const body of tableElement.tBodies) { // the head of a group stays its first row
      const rows = [...body.rows].filter((row) => !row.matches(".group-head"))
        .map((row) => [cellValue(row, column), row]);
      rows.sort((a, b) => (down ? compare(b[0], a[0]) : compare(a[0], b[0])));
      body.append(...rows.map((pair) => pair[1]));
    }
  };

  // A spreadsheet treats a cell that begins with = + - @ as a formula, unless it is a number.
  const isFormula = (text) => /^[=+\-@\t\r]/.test(text) && !/^[+-]?[\d.,]+(e[+-]?\d+)?( ?[%\p{L}/]*)$/iu.test(text);
  const plain = (text) => (isFormula(text) ? `'${text}` : text);
  const quote = (text) => (/[",\r\n]/.test(plain(text)) ? `"${plain(text).replace(/"/g, '""')}"` : plain(text));
  const rawSteps = (tableElement) => {
    const source = document.getElementById(tableElement.dataset.csv ?? "");
    return source ? source.textContent.trim() + "\n" : null;
  };
  const textOf = (cell) => cell.dataset.title ?? cell.innerText.trim().replace(/\s+/g, " ");
  const csvOf = (tableElement) => rawSteps(tableElement) ?? all("tr:not(.group-head)", tableElement)
    .map((row) => [...row.cells].filter((cell) => !cell.matches(".plot-cell, .axis-head"))
      .map((cell) => quote(textOf(cell))).join(",") + "\n").join("");

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
    const numeric = all("thead th", tableElement).map((head) => head.classList.contains("n"));
    const rows = rawSteps(tableElement).trim().split("\n").slice(1).map((line) => {
      const row = document.createElement("tr");
      line.split(",").forEach((text, i) => {
        const cell = document.createElement(i === 0 ? "th" : "td");
        cell.textContent = text;
        if (numeric[i]) cell.className = "n";
        row.append(cell);
      });
      row.id = tableElement.dataset.rows + row.cells[0].textContent;
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
      if (head.matches(".axis-head, .track-head")) return;
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
    if (rawSteps(tableElement)) {
      addButton(tools, "Show all", (button) => { showAll(tableElement); button.remove(); });
    }
    (tableElement.closest(".scroll") ?? tableElement).after(tools);
  }

  // A group of rows folds into its head, which shows them all as marks.
  for (const body of all("tbody[data-group]")) {
    const head = body.querySelector(".group-head th");
    const button = document.createElement("button");
    button.type = "button";
    button.className = "fold";
    button.append(...head.childNodes);
    const paint = () => button.setAttribute("aria-expanded", String(!body.matches(".folded")));
    button.addEventListener("click", () => { body.classList.toggle("folded"); paint(); });
    paint();
    head.append(button);
  }
  for (const tableElement of all("table.forest")) {
    const bodies = all("tbody[data-group]", tableElement);
    if (bodies.length === 0) continue;
    const tools = tableElement.nextElementSibling;
    addButton(tools, "Open or fold all", () => {
      const open = bodies.some((body) => body.matches(".folded"));
      for (const body of bodies) {
        body.classList.toggle("folded", !open);
        body.querySelector(".fold").setAttribute("aria-expanded", String(open));
      }
    });
  }
  window.btReport.showAll = showAll;
})();
