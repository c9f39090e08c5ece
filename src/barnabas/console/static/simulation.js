// The animation of a simulated run: states and messages by time, drawn as SVG.
"use strict";
document.addEventListener("DOMContentLoaded", async () => {
  const sim = document.getElementById("sim");
  if (!sim) return;
  const by = (id) => document.getElementById(id);
  const status = by("sim-status");
  let run;
  try {
    const answer = await fetch(sim.dataset.recording);
    run = await answer.json();
    if (run.error) throw new Error(run.error);
  } catch (error) {
    status.textContent = `The run failed: ${error.message}. Try fewer seconds or another seed.`;
    return;
  }
  const NS = "http://www.w3.org/2000/svg";
  const make = (name, attributes, words) => {
    const element = document.createElementNS(NS, name);
    for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
    if (words !== undefined) element.textContent = words;
    return element;
  };
  status.textContent = run.broken.length ? `A law was broken: ${run.broken[0]}` : `Seed ${run.seed}: ${run.operations.toLocaleString("en")} operations checked, no law was broken.`;
  by("sim-stage").hidden = false;
  const facts = { Simulated: `${run.seconds.toFixed(1)} s`, Brokers: run.brokers.length, Faults: Object.values(run.faults).reduce((a, b) => a + b, 0), Digest: run.digest.slice(0, 8) };
  for (const [term, words] of Object.entries(facts)) {
    const tile = document.createElement("div"); tile.className = "tile";
    const dt = document.createElement("dt"), dd = document.createElement("dd");
    dt.textContent = term; dd.textContent = words; tile.append(dt, dd); by("sim-facts").append(tile);
  }
  // Where hosts are: brokers on a row below, clients above.
  const hosts = new Map();
  run.brokers.forEach((name, i) => hosts.set(name, { x: 120 + (480 * i) / Math.max(1, run.brokers.length - 1), y: 250 }));
  const clients = [...new Set(run.messages.flatMap(([, from, to]) => [from, to]))].filter((name) => !hosts.has(name)).sort();
  clients.forEach((name, i) => hosts.set(name, { x: 60 + (600 * (i + 0.5)) / clients.length, y: 50, client: true }));
  const isFault = ([, who, what]) => who === "network" || who === "tree" || who === "ordeal" || /^(is killed|loses power|has power|is told|stands still|goes on|does not reach|its |has stopped|serves|fails)/.test(what);
  const faults = run.lines.filter(isFault);
  for (const [at, who, what] of faults) {
    const mark = make("rect", { x: (1000 * at) / run.seconds, y: 2, width: 3, height: 14, class: /again|serves|goes on/.test(what) ? "e1" : "e3" });
    mark.append(make("title", {}, `${at.toFixed(2)} s ${who} ${what}`));
    by("sim-marks").append(mark);
  }
  const list = by("sim-lines");
  run.lines.forEach(([at, who, what]) => {
    const item = document.createElement("li");
    item.textContent = `${at.toFixed(2)}  ${who}  ${what}`;
    list.append(item);
  });
  const latest = (rows, at) => { let low = 0, high = rows.length; while (low < high) { const mid = (low + high) >> 1; rows[mid][0] <= at ? (low = mid + 1) : (high = mid); } return low - 1; };
  function draw(at) {
    const picture = by("sim-picture");
    picture.replaceChildren();
    const [, up, controller, partitions] = run.states[Math.max(0, latest(run.states, at))] || [0, {}, null, {}];
    const SPAN = 0.12;
    for (let i = latest(run.messages, at); i >= 0 && run.messages[i][0] > at - SPAN; i--) {
      const [when, from, to] = run.messages[i], a = hosts.get(from), b = hosts.get(to);
      if (!a || !b) continue;
      const part = 1 - (at - when) / SPAN;
      picture.append(make("circle", { cx: b.x + (a.x - b.x) * part * 0.6, cy: b.y + (a.y - b.y) * part * 0.6, r: 3, class: a.client || b.client ? "e2" : "e0" }));
    }
    for (const [name, { x, y, client }] of hosts) {
      if (client) { picture.append(make("circle", { cx: x, cy: y, r: 6, class: "box" }), make("text", { x, y: y - 12, "text-anchor": "middle", class: "dim" }, name.length > 12 ? name.slice(0, 11) + "…" : name)); continue; }
      const state = up[name] || "down", number = Number(name.split("-")[1]);
      picture.append(make("rect", { x: x - 80, y: y - 30, width: 160, height: 180, rx: 10, class: "box", "stroke-dasharray": state === "up" ? "" : "5 4", opacity: state === "down" ? 0.5 : 1 }));
      picture.append(make("text", { x, y: y - 10, "text-anchor": "middle" }, `${name}${number === controller ? " · controller" : ""}${state === "up" ? "" : ` · ${state}`}`));
      Object.entries(partitions).filter(([, p]) => p[2].includes(number)).slice(0, 9).forEach(([at, [leader, isr, , epoch]], row) => {
        const top = y + 2 + row * 15, leads = leader === number, inSync = isr.includes(number);
        picture.append(make("rect", { x: x - 68, y: top, width: 10, height: 10, class: leads ? "e0" : inSync ? "sync" : "out" }));
        picture.append(make("text", { x: x - 52, y: top + 9, class: inSync ? "" : "dim" }, `${at}${leads ? ` · epoch ${epoch}` : inSync ? "" : " · out of sync"}`));
      });
    }
    by("sim-time").textContent = `${at.toFixed(2)} s`;
    const now = latest(run.lines, at);
    list.querySelector(".now")?.classList.remove("now");
    const item = list.children[now];
    if (item) { item.classList.add("now"); list.scrollTop = item.offsetTop - list.offsetTop - 120; }
  }
  const slider = by("sim-at"), play = by("sim-play");
  slider.max = Math.round(run.seconds * 100);
  let timer = null;
  const show = () => { slider.setAttribute("aria-valuetext", `${(slider.value / 100).toFixed(2)} seconds`); draw(slider.value / 100); };
  const stop = () => { cancelAnimationFrame(timer); timer = null; play.textContent = "Play"; };
  play.addEventListener("click", () => {
    if (timer) return stop();
    if (Number(slider.value) >= Number(slider.max)) slider.value = 0;
    play.textContent = "Pause";
    let last = performance.now();
    const step = (now) => { slider.value = Number(slider.value) + (now - last) / 10; last = now; show(); Number(slider.value) >= Number(slider.max) ? stop() : (timer = requestAnimationFrame(step)); };
    timer = requestAnimationFrame(step);
  });
  slider.addEventListener("input", () => { stop(); show(); });
  slider.value = Math.round((faults[Math.min(3, faults.length - 1)]?.[0] || 1) * 100);
  show();
});
