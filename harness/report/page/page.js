// page.js - a link to a row opens the section that contains it; one to a hidden step or round shows all.
// The last script. What scripts add to the page is in the others; the page can be read without
// them.
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
