// The console's own behaviour: themes, times in the reader's zone, keys, live blocks, charts.
"use strict";
(() => {
  const $ = (selector, within = document) => within.querySelector(selector);
  const all = (selector, within = document) => [...within.querySelectorAll(selector)];

  // -- theme ------------------------------------------------------------------
  const stored = localStorage.getItem("theme");
  if (stored) document.documentElement.dataset.theme = stored;
  const isDark = () => {
    const chosen = document.documentElement.dataset.theme;
    return chosen ? chosen === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  };
  document.addEventListener("click", (event) => {
    const target = event.target instanceof Element ? event.target : null;
    if (target?.closest("[data-theme-switch]")) {
      const theme = isDark() ? "light" : "dark";
      document.documentElement.dataset.theme = theme;
      localStorage.setItem("theme", theme);
      drawCharts(document, true);
    }
    const copy = target?.closest("[data-copy]");
    if (copy) {
      const from = document.getElementById(copy.dataset.copy);
      navigator.clipboard?.writeText(from ? from.textContent : "");
      copy.textContent = "Copied";
      setTimeout(() => (copy.textContent = "Copy"), 1500);
    }
    const row = target?.closest("tr[data-open]");
    if (row && !target.closest("a, button, input")) toggle(row);
  });

  // -- times ------------------------------------------------------------------
  const clock = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23" });
  const minute = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", hourCycle: "h23" });
  const day = new Intl.DateTimeFormat("sv-SE", { year: "numeric", month: "2-digit", day: "2-digit" });
  function localTimes(within) {
    for (const element of all("time[datetime]", within)) {
      const at = new Date(element.dateTime);
      const isToday = day.format(at) === day.format(new Date());
      const time = clock.format(at) + ("ms" in element.dataset ? `.${String(at.getMilliseconds()).padStart(3, "0")}` : "");
      element.textContent = isToday ? time : `${day.format(at)} ${time}`;
    }
  }

  // A time that a person types without a zone is one of their own zone, as all times that they see.
  const TYPED = /^(\d{4}-\d\d-\d\d)(?:[T ](\d\d:\d\d(?::\d\d(?:\.\d{1,3})?)?))?$/;
  document.addEventListener("submit", (event) => {
    for (const input of all("input[data-moment]", event.target)) {
      const typed = TYPED.exec(input.value.trim()), at = typed && new Date(`${typed[1]}T${typed[2] || "00:00"}`);
      if (at && !Number.isNaN(at.getTime())) input.value = at.toISOString();
    }
  });

  // -- charts -----------------------------------------------------------------
  const drawn = new WeakMap();
  function drawCharts(within, again = false) {
    const style = getComputedStyle(document.documentElement);
    const colour = (name) => style.getPropertyValue(name).trim();
    for (const element of all("[data-chart]", within)) {
      const data = JSON.parse(element.dataset.chart);
      const chart = drawn.get(element);
      if (chart && !again && data[0].length >= 2) { chart.setData(data); continue; }
      chart?.destroy();
      drawn.delete(element);
      element.replaceChildren();
      element.classList.toggle("waiting", data[0].length < 2);
      if (data[0].length < 2) { element.textContent = element.dataset.empty || ""; continue; }
      const axis = { stroke: colour("--muted"), grid: { stroke: colour("--line"), width: 1 }, ticks: { stroke: colour("--line") } };
      drawn.set(element, new uPlot({
        width: element.clientWidth || 320, height: 200, cursor: { y: false },
        legend: { live: false, show: false },
        series: [{}, ...data.slice(1).map((_, i) => ({ label: element.dataset.label, stroke: colour("--accent"), width: 2, dash: i ? [6, 4] : [], fill: colour("--accent-soft"), spanGaps: false }))],
        scales: { y: { range: (_, low, high) => [0, Math.max(1, high * 1.1)] } },
        axes: [{ ...axis, space: 80, values: (_, splits, __, ___, step) => splits.map((at) => (step < 60 ? clock : minute).format(at * 1000)) }, { ...axis, size: 60, values: (_, values) => values.map((v) => v.toLocaleString("en")) }],
      }, data, element));
    }
  }
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => drawCharts(document, true));
  let resized;
  addEventListener("resize", () => { clearTimeout(resized); resized = setTimeout(() => drawCharts(document, true), 150); });

  // -- live blocks --------------------------------------------------------------
  const RETRY_MS = 3000; // of a page that is not live
  const BUSY_MS = 10000; // until a page asks again whether it may be live
  let stream = null, wasLive = false;
  function setPulse(on, words) {
    const pulse = $("#pulse");
    if (!pulse) return;
    pulse.firstElementChild.className = on ? "pulse" : "pulse off";
    pulse.lastElementChild.textContent = words;
  }
  function listen() {
    const live = $("#live");
    if (!live || !("live" in live.dataset) || stream || document.hidden) return;
    stream = new EventSource(location.href.split("#")[0]);
    stream.onerror = () => {
      setPulse(false, "the console does not answer; trying again");
      if (stream?.readyState === EventSource.CLOSED) { hush(); setTimeout(listen, 2000); }
    };
    // The session is gone: with a restart of the console forms are too old, with a sign-out all is.
    stream.addEventListener("renew", (event) => {
      if (event.data === "sign-in") hush();
      if (event.data === "sign-in" || wasLive) location.reload();
    });
    stream.addEventListener("busy", (event) => { hush(); setPulse(false, `not live: ${event.data}`); setTimeout(listen, BUSY_MS); });
    stream.addEventListener("live", (event) => {
      setPulse(true, "live");
      const fresh = document.createElement("div"), block = $("#live");
      fresh.innerHTML = event.data;
      wasLive = true;
      while (block.firstChild && block.firstChild.nodeType !== Node.ELEMENT_NODE) block.firstChild.remove(); // as the event begins
      morph(block, fresh);
      enhance(block);
      selectAgain(false);
    });
  }
  // Changes only what differs: focus, selected text, scrolled tables and open details stay.
  function morph(into, from) {
    const old = [...into.childNodes], fresh = [...from.childNodes];
    fresh.forEach((node, i) => {
      const here = old[i];
      if (!here) into.append(node);
      else if (here.nodeType !== node.nodeType || here.nodeName !== node.nodeName || here.id !== node.id) here.replaceWith(node);
      else if (node.nodeType !== Node.ELEMENT_NODE) { if (here.nodeValue !== node.nodeValue) here.nodeValue = node.nodeValue; }
      else if (!here.isEqualNode(node)) morphElement(here, node);
    });
    old.slice(fresh.length).forEach((node) => node.remove());
  }
  function morphElement(here, node) {
    if (node.localName === "time" && here.dateTime === node.dateTime) return; // in the reader's zone
    const stays = here.localName === "details" ? ["open"] : [];
    for (const { name } of [...here.attributes]) if (!node.hasAttribute(name) && !stays.includes(name)) here.removeAttribute(name);
    for (const { name, value } of node.attributes) if (here.getAttribute(name) !== value) here.setAttribute(name, value);
    if (!("chart" in node.dataset)) morph(here, node);
  }
  function hush() { stream?.close(); stream = null; }
  document.addEventListener("visibilitychange", () => (document.hidden ? hush() : listen()));
  addEventListener("pagehide", hush);

  // -- keys ---------------------------------------------------------------------
  let selected = -1, chosen = null; // the row, and its link: rows may be replaced meanwhile
  const linkOf = (row) => row && (row.querySelector("a")?.getAttribute("href") ?? row.cells[0].textContent);
  const rows = () => all("tbody tr[data-row]");
  function select(index, scrolls = true) {
    const found = rows();
    found.forEach((row) => row.classList.remove("at"));
    selected = Math.max(0, Math.min(index, found.length - 1));
    const row = found[selected];
    chosen = linkOf(row);
    if (row) { row.classList.add("at"); if (scrolls) row.scrollIntoView({ block: "nearest" }); } else selected = -1;
  }
  function selectAgain(scrolls = true) {
    const links = chosen ? rows().map(linkOf) : [], index = links[selected] === chosen ? selected : links.indexOf(chosen);
    if (index < 0) { selected = -1; chosen = null; } else select(index, scrolls);
  }
  function toggle(row) {
    const detail = document.getElementById(row.dataset.open);
    if (!detail) return;
    detail.hidden = !detail.hidden;
    row.querySelector("button")?.setAttribute("aria-expanded", String(!detail.hidden));
  }
  addEventListener("keydown", (event) => {
    const typing = event.target.matches?.("input, select, textarea");
    if (event.key === "Escape" && typing) return event.target.blur();
    if (typing || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "/") { event.preventDefault(); const field = $("input[type=search]"); if (field) field.focus(); else if ($("nav")) location.href = `${$(".brand").href}topics#search`; }
    else if (event.key === "j") select(selected + 1);
    else if (event.key === "k") select(selected - 1);
    else if (event.key === "Enter" && selected >= 0 && document.activeElement === document.body) {
      const row = rows()[selected];
      if (row?.dataset.open) toggle(row); else $("a", row)?.click();
    }
  });

  // -- start --------------------------------------------------------------------
  function enhance(within) { localTimes(within); drawCharts(within); document.dispatchEvent(new CustomEvent("console:shown", { detail: within })); }
  document.addEventListener("console:rows", () => localTimes(document));
  document.addEventListener("htmx:afterSwap", (event) => { selectAgain(); enhance(document); if (event.detail.target?.id === "live") { hush(); listen(); } });
  document.addEventListener("DOMContentLoaded", () => { all("nav [aria-current]").forEach((link) => link.scrollIntoView({ block: "nearest", inline: "center" })); enhance(document); listen(); if (location.hash === "#search") $("input[type=search]")?.focus(); if ($("[data-retry]")) setTimeout(() => location.reload(), RETRY_MS); });
  document.addEventListener("htmx:historyRestore", () => { hush(); listen(); });
})();
