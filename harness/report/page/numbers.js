// numbers.js - numbers in the format of the rest of the page, and small helpers; the first script
(() => {
  "use strict";
  const three = (value) => {
    const size = Math.abs(value);
    return value.toFixed(size >= 100 ? 0 : size >= 10 ? 1 : 2);
  };
  const rate = (value) => (value >= 1e6 ? three(value / 1e6) + "M" : value >= 1e4
    ? three(value / 1e3) + "K" : value.toFixed(value >= 100 ? 0 : 1));
  const bytes = (value) => (value >= 2 ** 30 ? three(value / 2 ** 30) + " GiB"
    : three(value / 2 ** 20) + " MiB");
  const short = (value, digits) => String(Number(value.toFixed(digits)));

  // Per chart: a value under the cursor, and a tick, which needs no more digits than its distance.
  const formats = {
    hellaswag: { value: (v) => v.toFixed(3), tick: (v) => short(v, 4) },
    loss: { value: (v) => v.toFixed(3), tick: (v) => short(v, 4) },
    speed: { value: (v) => rate(v) + " tok/s",
      tick: (v) => (v >= 1e4 ? short(v / 1e3, 2) + "K" : short(v, 2)) },
    memory: { value: (v) => (v === 0 ? "0" : bytes(v)),
      tick: (v) => (v === 0 ? "0" : v >= 2 ** 30 ? short(v / 2 ** 30, 2) + " GiB"
        : short(v / 2 ** 20, 2) + " MiB") },
    clock: { value: (v) => v.toFixed(0) + " MHz", tick: (v) => short(v, 0) },
    load: { value: (v) => three(v) + " cores", tick: (v) => short(v, 2) },
    power: { value: (v) => three(v) + " W", tick: (v) => short(v, 1) },
  };

  window.btReport = {
    formats,
    all: (selector, from = document) => [...from.querySelectorAll(selector)],
  };
})();
