// page.js - a link to a row opens what holds it; to a step that is not shown, all steps. The last
// script: what the page gains where scripts run is in the others, nothing of it needed to read it.
(() => {
  "use strict";
  const { showAll } = window.btReport;
  document.documentElement.classList.add("scripted");
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
    const folded = target?.closest("tbody.folded");
    if (folded) folded.querySelector(".fold").click();
    for (let at = target?.closest("details"); at; at = at.parentElement.closest("details")) at.open = true;
    target?.scrollIntoView({ block: "center" });
  };
  addEventListener("hashchange", reveal);
  reveal();
})();
