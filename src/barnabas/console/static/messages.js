// The stream of messages: rows as they are read; a hidden or stopped tab stops the reading.
"use strict";
document.addEventListener("DOMContentLoaded", () => {
  const holder = document.querySelector("[data-messages]");
  if (!holder) return;
  const body = document.getElementById("messages");
  const progress = document.getElementById("messages-progress");
  const isLive = holder.dataset.live === "yes"; // what comes later is shown above
  const MOST = 4000, MOST_UNREADABLE = 20;
  const more = document.getElementById("messages-more");
  let source = null, next = "";
  const stop = (words) => {
    if (!source) return;
    source.close(); source = null;
    if (words) progress.textContent = words;
    document.getElementById("messages-stop").hidden = true;
    document.getElementById("messages-none").hidden = body.childElementCount > 0;
    more.hidden = !next;
  };
  function read(query) {
    next = "";
    more.hidden = true;
    progress.textContent = "Reading…";
    document.getElementById("messages-stop").hidden = false;
    source = new EventSource(holder.dataset.messages + query);
    source.addEventListener("rows", (event) => addRows(event.data));
    source.addEventListener("unreadable", (event) => {
      const list = document.getElementById("messages-unreadable");
      if (list.childElementCount < MOST_UNREADABLE) list.insertAdjacentHTML("beforeend", event.data);
    });
    source.addEventListener("progress", (event) => (progress.textContent = event.data));
    source.addEventListener("more", (event) => (next = event.data));
    source.addEventListener("done", (event) => stop(`${event.data}; done`));
    source.addEventListener("failed", (event) => {
      const failed = document.getElementById("messages-failed");
      failed.textContent = event.data; failed.hidden = false;
      stop("stopped");
      document.getElementById("messages-none").hidden = true; // it is not known
    });
    source.onerror = () => stop("the console does not answer; read again");
  }
  function addRows(html) {
    const part = document.createElement("tbody");
    part.innerHTML = html;
    const rows = [...part.children]; // each message has two, its details second
    for (let i = 0; i < rows.length; i += 2) {
      if (document.getElementById(rows[i + 1].id)) continue; // the search before found it, too
      if (isLive) body.prepend(rows[i], rows[i + 1]);
      else body.append(rows[i], rows[i + 1]);
    }
    while (body.childElementCount > MOST) (isLive ? body.lastElementChild : body.firstElementChild).remove();
    document.dispatchEvent(new CustomEvent("console:rows"));
  }
  read("");
  more.addEventListener("click", () => read(`${holder.dataset.messages.endsWith("?") ? "" : "&"}${next}`));
  document.getElementById("messages-stop").addEventListener("click", () => stop(`${progress.textContent}; stopped`));
  document.addEventListener("visibilitychange", () => { if (document.hidden) stop(`${progress.textContent}; stopped while the tab was hidden`); });
  body.addEventListener("click", (event) => {
    const button = event.target.closest("[data-toggle]");
    if (!button) return;
    const detail = document.getElementById(button.dataset.toggle);
    detail.hidden = !detail.hidden;
    button.setAttribute("aria-expanded", String(!detail.hidden));
  });
});
