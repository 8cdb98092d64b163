// Looks at a page that is open in a browser; returns what is wrong with it, a sentence each. See checks.py.
() => {
  const found = [];
  const say = (what, one) => found.push(what + ": " + (one && one.outerHTML ? one.outerHTML.slice(0, 140).replace(/\s+/g, " ") : one));
  const all = (selector) => [...document.querySelectorAll(selector)];
  const seen = (one) => one.checkVisibility({visibilityProperty: true});
  const text = (one) => (one.getAttribute("aria-label") || one.textContent || "").trim();

  if (document.documentElement.lang !== "en") say("no language", document.documentElement);
  if (!/^\S.* - flashferry$/s.test(document.title)) say("no title", document.title);
  if (all("h1").length !== 1) say("h1s", all("h1").length);
  let level = 0;
  for (const head of all("h1, h2, h3, h4, h5, h6")) {
    const now = Number(head.tagName[1]);
    if (now > level + 1) say("a head's level is left out before", head);
    if (!text(head)) say("a head without words", head);
    level = now;
  }
  const ids = new Set();
  for (const one of all("[id]")) { if (ids.has(one.id)) say("an id that is there twice", one); ids.add(one.id); }
  for (const name of ["for", "aria-labelledby", "aria-describedby"])
    for (const one of all("[" + name + "]"))
      for (const id of one.getAttribute(name).split(/\s+/)) if (!ids.has(id)) say(name + " leads nowhere", one);
  for (const one of all("input:not([type=hidden]), select, textarea, progress"))
    if (!one.labels.length && !one.getAttribute("aria-label")) say("no label", one);
  for (const one of all("img:not([alt])")) say("a picture without words", one);
  for (const one of all("svg:not([aria-hidden=true])"))
    if (!(one.getAttribute("role") === "img" && (one.getAttribute("aria-label") || one.getAttribute("aria-labelledby") || one.querySelector("title")))) say("a picture without a name", one);
  for (const one of all("a[href], button, summary")) if (!text(one)) say("nothing to hear", one);
  for (const one of all("[tabindex]")) if (one.tabIndex > 0) say("a tabindex of its own", one);
  for (const one of all("th:not([scope])")) say("a head of a table without its scope", one);
  for (const one of all("th")) if (!text(one)) say("an empty head of a table", one);
  for (const one of all("table"))
    if (!one.caption && !one.getAttribute("aria-label") && !one.closest("[role=region][aria-label], .report")) say("a table without a name", one);
  if (!document.querySelector("main#main") || !document.querySelector("a.skip[href='#main']")) say("no way past the navigation", "");
  if (document.querySelector("[style], style, script:not([src])")) say("style or script of its own", document.querySelector("[style], style, script:not([src])"));

  // Contrast: of words to what is behind them, and of the edges of what is typed into.
  const canvas = document.createElement("canvas").getContext("2d", {willReadFrequently: true});
  const known = new Map();
  const rgba = (colour) => {
    if (!known.has(colour)) {
      canvas.clearRect(0, 0, 1, 1);
      canvas.fillStyle = colour;
      canvas.fillRect(0, 0, 1, 1);
      const [r, g, b, a] = canvas.getImageData(0, 0, 1, 1).data;
      known.set(colour, [r, g, b, a / 255]);
    }
    return known.get(colour);
  };
  const over = (top, below) => [0, 1, 2].map((i) => top[i] * top[3] + below[i] * (1 - top[3])).concat(1);
  const light = ([r, g, b]) => {
    const [x, y, z] = [r, g, b].map((v) => { v /= 255; return v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4; });
    return 0.2126 * x + 0.7152 * y + 0.0722 * z;
  };
  const contrast = (one, two) => { const [a, b] = [light(one), light(two)].sort((x, y) => y - x); return (a + 0.05) / (b + 0.05); };
  const paper = rgba(getComputedStyle(document.body).backgroundColor);
  const behind = (one) => {
    const layers = [];
    for (let at = one; at; at = at.parentElement) {
      const colour = rgba(getComputedStyle(at).backgroundColor);
      if (colour[3]) layers.push(colour);
      if (colour[3] === 1) break;
    }
    return layers.reverse().reduce((below, top) => over(top, below), paper);
  };
  const told = new Set();
  const look = (one, colour, least, what) => {
    const back = behind(one), found = contrast(over(rgba(colour), back), back);
    const key = what + colour + back.join();
    if (found < least && !told.has(key)) { told.add(key); say(what + ", contrast " + found.toFixed(2) + " of " + colour + " on " + back.slice(0, 3).map(Math.round), one); }
  };
  const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  const done = new Set();
  while (walk.nextNode()) {
    const one = walk.currentNode.parentElement;
    if (!walk.currentNode.data.trim() || done.has(one) || !seen(one) || one.closest("template, script, noscript, :disabled")) continue;
    done.add(one);
    const style = getComputedStyle(one);
    const size = parseFloat(style.fontSize);
    const isLarge = size >= 24 || (size >= 18.66 && Number(style.fontWeight) >= 700);
    look(one, one.closest("svg") ? style.fill : style.color, isLarge ? 3 : 4.5, "words");
  }
  for (const one of all("input:not([type=hidden],[type=file],[type=checkbox],[type=radio],:disabled), select:not(:disabled), textarea:not(:disabled)")) {
    if (!seen(one)) continue;
    look(one.parentElement, getComputedStyle(one).borderTopColor, 3, "an edge");
    look(one, getComputedStyle(one).color, 4.5, "what is typed");
    if (one.placeholder) look(one, getComputedStyle(one, "::placeholder").color, 4.5, "a placeholder");
  }
  const width = document.documentElement;
  if (width.scrollWidth > width.clientWidth) {
    const wide = all("main *, header *, footer *").filter((one) => one.getBoundingClientRect().right > width.clientWidth + 1 && !one.closest(".wide"));
    say("wider than its window, " + width.scrollWidth + " of " + width.clientWidth, wide[0] || "");
  }
  return found;
}
