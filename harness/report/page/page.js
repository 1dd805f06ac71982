// page.js - a link to a row opens what holds it; to a step or round that is not shown, all of them.
// The last script. What the page gains where scripts run is in the others; nothing of it is needed
// to read it.
(() => {
  "use strict";
  const { all, showAll } = window.btReport;
  document.documentElement.classList.add("scripted");
  const reveal = () => {
    const name = decodeURIComponent(location.hash.slice(1));
    if (!name) return;
    let target = document.getElementById(name);
    const tableElement = all("table[data-csv]").find((one) => name.startsWith(one.dataset.rows));
    if (!target && tableElement) {
      showAll(tableElement);
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
