"use strict";
// Puts what the stream says into the page: text only, into cells that are there or in rows made of the page's templates.
// A clock of the page's own says how old that is: grey after five seconds, whatever the stream, worker or proxy does.
(() => {
  const OLD_S = 5;
  const body = document.body, worker = body.dataset.worker;
  if (!worker) return;
  const runs = (body.dataset.runs || "").split(" ").filter(Boolean);
  const age = document.getElementById("age"), alarm = document.getElementById("alarm");
  const tables = new Map();
  const offers = document.querySelector("[data-cell=offers]");
  let offered = offers ? offers.textContent : "", offeredAt = "";
  let newsAt = performance.now(), behindS = 0, alarmText = alarm ? alarm.textContent : "";

  for (const place of document.querySelectorAll("[data-table]")) {
    const key = (place.dataset.group || "tonight") + " " + place.dataset.table;
    const rows = new Map();
    for (const row of place.querySelectorAll("[data-row]")) rows.set(row.dataset.row, cellsOf(row));
    const template = document.getElementById(place.dataset.template || "");
    const found = tables.get(key) || [];
    found.push({place, rows, template, empty: (place.dataset.empty || "").split(" ").map((id) => document.getElementById(id)).filter(Boolean)});
    tables.set(key, found);
  }

  function cellsOf(row) {
    const cells = new Map();
    for (const cell of row.querySelectorAll("[data-cell]")) {
      const same = cells.get(cell.dataset.cell);
      if (same) same.push(cell); else cells.set(cell.dataset.cell, [cell]);
    }
    return {row, cells};
  }

  function put(cell, value) {
    const [text, tone, path] = Array.isArray(value) ? value : [value, "", ""];
    if (cell.tagName === "PROGRESS") cell.value = Number(text);
    else if (cell === offers) offered = text;
    else if (cell === alarm) { alarmText = text; if (!body.classList.contains("stale")) setText(cell, text); }
    else setText(cell, text);
    if ((cell.dataset.tone || "") !== tone) cell.dataset.tone = tone;
    if (cell.tagName === "A" && path && cell.getAttribute("href") !== path && /^\/[^/\\]/.test(path)) cell.setAttribute("href", path);
  }

  function setText(cell, text) {
    if (cell.textContent !== text) cell.textContent = text;
  }

  function take(said) {
    for (const [name, change] of Object.entries(said.tables)) {
      for (const table of tables.get(said.group + " " + name) || []) patch(table, change, said.kind === "whole");
    }
    if (offers && said.group === runs[0]) { offeredAt = said.at; renew(); }
    if (said.group !== "tonight") return;
    // The person chose another time zone in another tab: headings name the old one.
    if (said.zone !== body.dataset.zone) location.reload();
    newsAt = performance.now();
    behindS = said.age_s;
    tick();
  }

  // Other actions are offered now: the page is loaded again, unless a form that is still good is being filled in.
  // News older than the page, which a worker keeps for a moment, say nothing.
  function renew() {
    if (offered === offers.textContent || offeredAt <= offers.dataset.at) return;
    const isTyping = [...document.querySelectorAll("form[method=post] input:not([type=hidden])")].some((one) => one.value !== one.defaultValue);
    const isStillAlive = [offered, offers.textContent].every((one) => /^(alive|wave )/.test(one));
    if (!isTyping || !isStillAlive) location.reload();
  }

  function patch(table, change) {
    for (const [key, row] of Object.entries(change.rows || {})) {
      let known = table.rows.get(key);
      if (!known) {
        if (!table.template) continue;
        const made = table.template.content.firstElementChild.cloneNode(true);
        made.dataset.row = key;
        known = cellsOf(made);
        table.rows.set(key, known);
      }
      for (const [name, value] of Object.entries(row)) for (const cell of known.cells.get(name) || []) put(cell, value);
    }
    if (!change.order || !table.template) return;
    const kept = new Set(change.order);
    for (const [key, known] of table.rows) if (!kept.has(key)) { known.row.remove(); table.rows.delete(key); }
    let before = null;
    for (const key of change.order) {
      const known = table.rows.get(key);
      if (!known) continue;
      const next = before ? before.nextElementSibling : table.place.firstElementChild;
      // One row that went further down is moved itself, and not all the others up.
      if (next && next !== known.row && next.nextElementSibling === known.row) table.place.append(next);
      else if (next !== known.row) table.place.insertBefore(known.row, next);
      before = known.row;
    }
    for (const one of table.empty) one.hidden = change.order.length > 0;
    const around = table.place.closest("[data-hides]");
    if (around) around.hidden = change.order.length === 0;
  }

  function tick() {
    const oldS = Math.max(0, (performance.now() - newsAt) / 1000) + behindS;
    const isOld = oldS > OLD_S;
    if (age) setText(age, isOld ? "No news for " + words(oldS) + ": this is what was" : "live, " + words(oldS) + " ago");
    if (isOld === body.classList.contains("stale")) return;
    body.classList.toggle("stale", isOld);
    if (alarm) setText(alarm, isOld ? "The screen stands still: nothing has come from the service. What it shows is old." : alarmText);
  }

  function words(seconds) {
    if (seconds < 100) return Math.floor(seconds) + " s";
    return seconds < 6000 ? Math.floor(seconds / 60) + " min" : Math.floor(seconds / 3600) + " h";
  }

  setInterval(tick, 1000);
  document.addEventListener("visibilitychange", tick);

  let join, leave;
  const name = ["flashferry", body.dataset.who, body.dataset.zone].join(" ");
  if (typeof SharedWorker === "function") {
    const shared = new SharedWorker(worker, {name});
    shared.onerror = alone;
    shared.port.onmessage = ({data}) => take(data);
    join = () => shared.port.postMessage({runs});
    leave = () => shared.port.postMessage({leave: true});
    join();
  } else {
    alone();
  }
  addEventListener("pagehide", () => leave && leave());
  addEventListener("pageshow", (event) => { if (event.persisted && join) join(); });

  // Without a SharedWorker one tab has the stream and informs the others; they take over when it falls silent.
  function alone() {
    const LOST_MS = 3000, me = Math.random().toString(36).slice(2), others = new BroadcastChannel(name);
    const wants = new Map();
    let hub = null, lastMessageAt = Date.now(), leader = "";
    const hello = () => others.postMessage({from: me, hello: runs});

    function lead() {
      hub = streamHub();
      share();
    }

    function share() {
      hub.join(me, [...new Set([...runs, ...[...wants.values()].flat()])], (said) => {
        take(said);
        others.postMessage({from: me, said});
      });
    }

    function follow() {
      hub.leave(me);
      hub = null;
      wants.clear();
      hello();
    }

    others.onmessage = ({data}) => {
      if (data.said || data.leads) {
        // Where two lead, the one with the smaller name goes on.
        if (hub && data.from > me) return;
        if (hub) follow();
        // Who leads now was not there when we said which runs we show.
        if (data.from !== leader) { leader = data.from; hello(); }
        lastMessageAt = Date.now();
        if (data.said) take(data.said);
      } else if (data.hello && hub) {
        wants.set(data.from, data.hello);
        share();
      } else if (data.leaves && hub && wants.delete(data.from)) {
        share();
      }
    };
    const script = document.createElement("script");
    script.src = worker;
    script.onload = () => {
      lastMessageAt = Date.now() - LOST_MS + 500 + 500 * Math.random();
      hello();
      setInterval(() => {
        if (hub) others.postMessage({from: me, leads: true});
        else if (Date.now() - lastMessageAt > LOST_MS) lead();
      }, 500);
    };
    document.head.append(script);
    join = () => { lastMessageAt = Date.now(); hello(); };
    leave = () => { if (hub) { hub.leave(me); hub = null; } else others.postMessage({from: me, leaves: true}); };
  }
})();
