"use strict";
(function () {
  var table = document.getElementById("devices");
  if (!table) return;
  var body = table.tBodies[0];
  var rows = Array.prototype.slice.call(body.rows);
  var tools = document.getElementById("tools");
  var search = document.getElementById("search");
  var shown = document.getElementById("shown");
  tools.hidden = false;
  function filter() {
    var words = search.value.toLowerCase().split(/\s+/);
    var count = 0;
    rows.forEach(function (row) {
      var text = row.textContent.toLowerCase();
      var fits = words.every(function (word) { return text.indexOf(word) >= 0; });
      row.hidden = !fits;
      var detail = document.getElementById(row.dataset.detail);
      if (detail) detail.hidden = !fits;
      if (fits) count += 1;
    });
    shown.textContent = count + " of " + rows.length + " shown";
  }
  search.addEventListener("input", filter);
  function value(row, column) {
    var cell = row.cells[column];
    return cell.dataset.v === undefined ? cell.textContent.trim() : parseFloat(cell.dataset.v);
  }
  Array.prototype.forEach.call(table.tHead.rows[0].cells, function (head, column) {
    // No button inside: a browser that repeats the head on each printed page leaves controls in it out.
    head.tabIndex = 0;
    head.title = "Sort";
    head.addEventListener("keydown", function (event) {
      if (event.key === "Enter" || event.key === " ") { event.preventDefault(); head.click(); }
    });
    head.addEventListener("click", function () {
      var up = head.getAttribute("aria-sort") !== "ascending";
      Array.prototype.forEach.call(table.tHead.rows[0].cells, function (each) { each.removeAttribute("aria-sort"); });
      head.setAttribute("aria-sort", up ? "ascending" : "descending");
      rows.slice().sort(function (one, other) {
        var a = value(one, column), b = value(other, column);
        var order = typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b), undefined, { numeric: true });
        return up ? order : -order;
      }).forEach(function (row) { body.appendChild(row); });
    });
  });
  function open(wanted) {
    Array.prototype.forEach.call(document.querySelectorAll("details.device"), function (one) { if (!one.hidden) one.open = wanted; });
  }
  document.getElementById("open").addEventListener("click", function () { open(true); });
  document.getElementById("close").addEventListener("click", function () { open(false); });
  function follow() {
    var target = location.hash && document.getElementById(location.hash.slice(1));
    if (target && target.tagName === "DETAILS") { target.open = true; target.scrollIntoView(); }
  }
  window.addEventListener("hashchange", follow);
  follow();
})();
