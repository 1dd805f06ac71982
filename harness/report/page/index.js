// index.js - filters the rows of the index; words, status and suite are stored in the hash
(() => {
  "use strict";
  const { all } = window.btReport;
  const form = document.querySelector(".filters");
  const inputs = ["words", "status", "suite"].map((id) => document.getElementById(id));
  const rows = all("tr[data-words]");
  const apply = () => {
    const [words, status, suite] = inputs.map((input) => input.value);
    const wanted = words.toLowerCase().split(/\s+/).filter(Boolean);
    let shown = 0;
    for (const row of rows) {
      const text = (row.dataset.words + row.cells[0].textContent).toLowerCase();
      row.hidden = !(wanted.every((word) => text.includes(word))
        && (!status || !row.dataset.status || row.dataset.status === status)
        && (!suite || row.dataset.suite === suite));
      shown += !row.hidden;
    }
    document.getElementById("shown").textContent = shown === rows.length ? "" : `${shown} of ${rows.length} rows`;
    const parts = inputs.filter((input) => input.value).map((input) => [input.id, input.value]);
    history.replaceState(null, "", parts.length ? "#" + new URLSearchParams(parts) : location.pathname);
  };
  for (const [id, value] of new URLSearchParams(location.hash.slice(1))) {
    const input = document.getElementById(id);
    if (inputs.includes(input)) input.value = value;
  }
  form.hidden = false;
  form.addEventListener("input", apply);
  form.addEventListener("submit", (event) => event.preventDefault());
  document.documentElement.classList.add("scripted");
  if (location.hash.includes("=")) apply();
})();
