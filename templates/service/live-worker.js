"use strict";
// Keeps one stream for all tabs of a browser: HTTP/1.1 has six connections per host, and the seventh tab would hang
// without a word. As a SharedWorker it is asked by ports; where there is none, live.js runs it in one of the tabs.
function streamHub() {
  const SILENT_MS = 8000, AGAIN_MS = 3000;
  const tabs = new Map();
  let source = null, url = "", boards = {}, lastMessageAt = 0, again = null;

  function wanted() {
    const runs = [...new Set([...tabs.values()].flatMap((tab) => tab.runs))].sort();
    return "/api/v1/live" + (runs.length ? "?" + runs.map((run) => "run=" + encodeURIComponent(run)).join("&") : "");
  }

  function connect() {
    clearTimeout(again);
    again = null;
    if (source) source.close();
    source = null;
    if (!tabs.size) return;
    url = wanted();
    boards = {};
    lastMessageAt = Date.now();
    source = new EventSource(url);
    source.addEventListener("whole", take);
    source.addEventListener("news", take);
    source.onerror = () => {
      // A browser comes back by itself, but not after an answer that is no stream.
      if (source && source.readyState === EventSource.CLOSED && !again) again = setTimeout(connect, AGAIN_MS);
    };
  }

  function take(event) {
    lastMessageAt = Date.now();
    const said = JSON.parse(event.data);
    said.kind = event.type;
    keep(said);
    for (const tab of tabs.values()) if (said.group === "tonight" || tab.runs.includes(said.group)) tab.show(said);
  }

  function keep(said) {
    if (said.kind === "whole" || !boards[said.group]) {
      boards[said.group] = {kind: "whole", group: said.group, at: said.at, age_s: said.age_s, zone: said.zone, tables: said.tables};
      return;
    }
    const board = boards[said.group];
    board.at = said.at;
    board.age_s = said.age_s;
    for (const [name, news] of Object.entries(said.tables)) {
      const table = board.tables[name] || (board.tables[name] = {order: [], rows: {}});
      for (const [key, row] of Object.entries(news.rows || {})) table.rows[key] = Object.assign(table.rows[key] || {}, row);
      if (!news.order) continue;
      table.order = news.order;
      const kept = new Set(news.order);
      for (const key of Object.keys(table.rows)) if (!kept.has(key)) delete table.rows[key];
    }
  }

  // A stream that hangs without an error, as behind a proxy that went away, is started again.
  setInterval(() => {
    if (tabs.size && !again && Date.now() - lastMessageAt > SILENT_MS) connect();
  }, 2000);

  return {
    join(id, runs, show) {
      tabs.set(id, {runs, show});
      if (!source || url !== wanted()) connect();
      else for (const board of Object.values(boards)) {
        if (Date.now() - lastMessageAt < 2500 && (board.group === "tonight" || runs.includes(board.group))) show(board);
      }
    },
    leave(id) {
      tabs.delete(id);
      if (!tabs.size) connect();
    },
  };
}

if ("onconnect" in self) {
  const hub = streamHub();
  self.onconnect = (event) => {
    const port = event.ports[0];
    port.onmessage = ({data}) => {
      if (data.leave) hub.leave(port);
      else hub.join(port, data.runs, (said) => port.postMessage(said));
    };
  };
}
