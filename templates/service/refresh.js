"use strict";
// Refreshes a page without a stream: it is fetched again, and what differs is put into
// what is there. Nothing is replaced that may stay: scroll, focus, and what is unfolded are the reader's own.
(() => {
  const EVERY_S = 5, OLD_S = 20, WAITS_MS = 15000;
  const age = document.getElementById("age");
  if (!age) return;
  let newsAt = performance.now(), askedAt = newsAt, isAsked = false;

  const kind = (node) => node.nodeName + " " + (node.nodeType === Node.ELEMENT_NODE ? node.dataset.key || "" : "");

  function patch(old, fresh) {
    if (old.nodeType !== Node.ELEMENT_NODE) {
      if (old.data !== fresh.data) old.data = fresh.data;
      return;
    }
    if (old === age) return;
    for (const {name} of [...old.attributes]) {
      if (!fresh.hasAttribute(name) && !(old.tagName === "DETAILS" && name === "open")) old.removeAttribute(name);
    }
    for (const {name, value} of fresh.attributes) if (old.getAttribute(name) !== value) old.setAttribute(name, value);
    patchChildren(old, fresh);
  }

  function patchChildren(old, fresh) {
    const free = new Map();
    for (const node of old.childNodes) {
      const found = free.get(kind(node));
      if (found) found.push(node); else free.set(kind(node), [node]);
    }
    const wanted = [...fresh.childNodes].map((node) => [(free.get(kind(node)) || []).shift(), node]);
    // What is gone goes first: nothing that stays, and may have the focus, is moved for its sake.
    for (const left of free.values()) for (const node of left) node.remove();
    let next = old.firstChild;
    for (const [known, node] of wanted) {
      if (known) patch(known, node);
      if (known && known === next) next = next.nextSibling;
      else old.insertBefore(known || document.importNode(node, true), next);
    }
  }

  async function look() {
    isAsked = true;
    askedAt = performance.now();
    try {
      const asked = {headers: {Accept: "text/html", "X-Watch": "1"}, cache: "no-store", signal: AbortSignal.timeout(WAITS_MS)};
      const answer = await fetch(location.pathname + location.search, asked);
      // Led elsewhere is led to sign in: the shown state gets old until then.
      if (!answer.ok || answer.redirected) return;
      const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
      for (const part of ["main", "footer"]) patch(document.querySelector(part), fresh.querySelector(part));
      newsAt = performance.now();
    } catch (error) {
      // The service is away: the page says how old it is.
    } finally {
      isAsked = false;
      tick();
    }
  }

  function tick() {
    const now = performance.now(), oldS = Math.max(0, now - newsAt) / 1000, isOld = oldS > OLD_S;
    const text = isOld ? "No news for " + words(oldS) + ": this is what was" : "live, " + words(oldS) + " ago";
    if (age.textContent !== text) age.textContent = text;
    document.body.classList.toggle("stale", isOld);
    if (!document.hidden && !isAsked && now - askedAt >= 1000 * EVERY_S) look();
  }

  function words(seconds) {
    if (seconds < 100) return Math.floor(seconds) + " s";
    return seconds < 6000 ? Math.floor(seconds / 60) + " min" : Math.floor(seconds / 3600) + " h";
  }

  setInterval(tick, 1000);
  document.addEventListener("visibilitychange", tick);
  addEventListener("pageshow", tick);
})();
