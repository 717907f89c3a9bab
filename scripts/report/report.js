(function () {
  var root = document.documentElement, asked = /[?&]theme=(dark|light)/.exec(location.search), kept = null;
  try { kept = localStorage.getItem("organ-report-theme"); } catch (e) { kept = null; }
  if (asked || kept) root.dataset.theme = asked ? asked[1] : kept;
  function dark() {
    return root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  }
  var toggle = document.getElementById("theme");
  function label() { toggle.textContent = dark() ? "Light" : "Dark"; }
  toggle.hidden = false;
  label();
  toggle.addEventListener("click", function () {
    root.dataset.theme = dark() ? "light" : "dark";
    try { localStorage.setItem("organ-report-theme", root.dataset.theme); } catch (e) { kept = null; }
    label();
  });
  function value(row, i) {
    var cell = row.cells[i], v = cell.dataset.v;
    return v === undefined ? cell.textContent.trim().toLowerCase() : v === "" ? -Infinity : parseFloat(v);
  }
  document.querySelectorAll("table.sort").forEach(function (table) {
    Array.prototype.forEach.call(table.tHead.rows[0].cells, function (th, i) {
      var button = document.createElement("button");
      button.type = "button";
      while (th.firstChild) button.appendChild(th.firstChild);
      th.appendChild(button);
      button.addEventListener("click", function () {
        var body = table.tBodies[0], rows = Array.prototype.slice.call(body.rows);
        var first = rows.length && typeof value(rows[0], i) === "number" ? "descending" : "ascending";
        var now = th.getAttribute("aria-sort"), way = !now ? first : now === "ascending" ? "descending" : "ascending";
        table.querySelectorAll("th[aria-sort]").forEach(function (o) { o.removeAttribute("aria-sort"); });
        th.setAttribute("aria-sort", way);
        rows.sort(function (a, b) {
          var x = value(a, i), y = value(b, i), r = x < y ? -1 : x > y ? 1 : 0;
          return way === "ascending" ? r : -r;
        });
        rows.forEach(function (r) { body.appendChild(r); });
      });
    });
  });
})();
