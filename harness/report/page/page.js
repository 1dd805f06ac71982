// page.js - a link to a row opens what holds it; to a step or round that is not shown, all of them.
// The last script. What the page gains where scripts run is in the others; nothing of it is needed
// to read it.
(() => {
  "use strict";
  const { showAll } = window.btReport;
  document.documentElement.classList.add("scripted");
  const reveal = () => {
    const name = decodeURIComponent(location.hash.slice(1));
    if (!name) return;
    let target = document.getElementById(name);
    const row = /^(?:c(\d+)-step|(round))-\d+$/.exec(name);
    if (!target && row) {
      const tableElement = document.querySelector(`table[data-csv="csv-${row[1] ?? "rounds"}"]`);
      if (tableElement) showAll(tableElement);
      target = document.getElementById(name);
    }
    const folded = target?.closest("tbody.folded");
    if (folded) folded.querySelector(".fold").click();
    for (let at = target?.closest("details"); at; at = at.parentElement.closest("details")) at.open = true;
    target?.scrollIntoView({ block: "center" });
  };
  addEventListener("hashchange", reveal);
  reveal();
})();
