"use strict";
(function () {
  var data = JSON.parse(document.getElementById("data").textContent);
  var card = document.getElementById("curves"), svg = card.querySelector("svg");
  var left = +svg.dataset.left, right = +svg.dataset.right, end = +svg.dataset.end;

  function make(tag, parent, text, attributes) {
    var element = document.createElement(tag);
    if (text) element.textContent = text;
    Object.entries(attributes || {}).forEach(function (pair) { element.setAttribute(pair[0], pair[1]); });
    if (parent) parent.append(element);
    return element;
  }

  /* The values at a radius, which a slider or the pointer over the curves chooses. */
  var controls = make("div", null, "", { "class": "controls" });
  card.querySelector(".legend").before(controls);
  var label = make("label", controls, "Radius");
  var slider = make("input", label, "", { type: "range", min: 0, max: data.radii.length - 1, step: 1, value: 0 });
  var output = make("output", label);
  var readout = make("div", null, "", { "class": "readout", role: "region", tabindex: 0, "aria-label": "Values at the radius" });
  controls.after(readout);
  var attacked = data.runs.some(function (run) { return run.attacked; });
  var paired = data.runs.some(function (run) { return run.difference.some(Boolean); });
  var table = make("table", readout), head = make("tr", make("thead", table)), body = make("tbody", table);
  var titles = ["Certified, %", "95 % interval"];
  if (attacked) titles.push("After the attack, %");
  if (paired) titles.push("Points more than " + data.runs[0].name);
  ["Input"].concat(titles).forEach(function (title) { make("th", head, title, { scope: "col" }); });
  var rows = data.runs.map(function (run, number) {
    var row = make("tr", body, "", { "class": "run-" + number }), name = make("th", row, "", { scope: "row" });
    make("span", name, "", { "class": "dot", style: "background: var(--c" + number + ")" });
    name.append(run.name);
    return titles.map(function (title) { return make("td", row, "", { "data-label": title }); });
  });
  var cursor = document.createElementNS(svg.namespaceURI, "line");
  cursor.setAttribute("class", "cursor");
  cursor.setAttribute("y1", 14);
  cursor.setAttribute("y2", svg.viewBox.baseVal.height - 52);
  svg.append(cursor);

  function inLinf() { return axis && axis.value === "linf"; }
  function length(radius) {
    if (!inLinf()) return String(data.texts[data.radii.indexOf(radius)] || radius);
    return (Math.floor(25500 * radius / data.linf_divisor) / 100).toFixed(2) + "/255";
  }
  function show(number) {
    var radius = data.radii[number], x = left + (right - left) * radius / end;
    slider.value = number;
    output.textContent = length(radius);
    slider.setAttribute("aria-valuetext", "radius " + length(radius) + ": " + data.runs.map(function (run) {
      return run.name + " " + run.value[number];
    }).join(", "));
    cursor.setAttribute("x1", x);
    cursor.setAttribute("x2", x);
    data.runs.forEach(function (run, index) {
      var texts = [run.value[number], run.interval[number] || "\u2013"];
      if (attacked) texts.push(run.attacked ? run.attacked[number] : "\u2013");
      if (paired) texts.push(run.difference[number] || "\u2013");
      texts.forEach(function (text, column) { rows[index][column].textContent = text; });
    });
  }
  function nearest(radius) {
    var best = 0;
    data.radii.forEach(function (candidate, number) {
      if (Math.abs(candidate - radius) < Math.abs(data.radii[best] - radius)) best = number;
    });
    return best;
  }
  slider.addEventListener("input", function () { show(+slider.value); });
  svg.addEventListener("pointermove", function (event) {
    var box = svg.getBoundingClientRect(), x = (event.clientX - box.left) * svg.viewBox.baseVal.width / box.width;
    show(nearest((x - left) / (right - left) * end));
  });

  /* The axis in the norm of the radii, or in the l-infinity length that fits into it. */
  var axis = null, title = svg.querySelector(".name"), ticks = svg.querySelectorAll("text[text-anchor=middle].tick:not(.name)");
  if (data.linf_divisor) {
    axis = make("select", make("label", controls, "Axis"));
    make("option", axis, data.norm, { value: data.norm });
    make("option", axis, "l-infinity", { value: "linf" });
    axis.addEventListener("change", function () {
      ticks.forEach(function (tick) {
        tick.dataset.own = tick.dataset.own || tick.textContent;
        tick.textContent = inLinf() ? length(+tick.dataset.own).replace("/255", "") : tick.dataset.own;
      });
      title.dataset.own = title.dataset.own || title.textContent;
      title.textContent = inLinf() ? "Radius (l-infinity, in 1/255 of the pixel range)" : title.dataset.own;
      show(+slider.value);
    });
  }

  /* A checkbox for every input shows or hides it in all figures. */
  document.querySelectorAll(".legend li").forEach(function (item) {
    if (data.runs.length < 2) return;
    var box = make("input", null, "", { type: "checkbox" }), boxLabel = make("label");
    box.checked = true;
    boxLabel.append(box, ...item.childNodes);
    item.append(boxLabel);
    box.addEventListener("change", function () {
      document.querySelectorAll("svg .run-" + item.dataset.run + ", .readout .run-" + item.dataset.run).forEach(function (element) {
        element.classList.toggle("hidden", !box.checked);
      });
      boxLabel.classList.toggle("off", !box.checked);
    });
  });

  /* A click on the title of a column sorts the rows by it. */
  var seconds = { s: 1, min: 60, h: 3600 };
  function words(cell) { return (cell.tagName === "TH" ? cell : cell.firstChild || cell).textContent.trim(); }
  function number(cell) {
    var text = words(cell).replace(/,(?=\d)/g, "").replace(/^\u2265 /, "");
    var times = Array.from((text.match(/^(\d[\d.e-]* (h|min|s)\b ?)+/) || [""])[0].matchAll(/(\S+) (h|min|s)\b/g));
    if (times.length) return times.reduce(function (sum, match) { return sum + match[1] * seconds[match[2]]; }, 0);
    return text === "\u2013" || !text ? -Infinity : parseFloat(text);
  }
  function compare(column, rows) {
    var numbers = rows.every(function (row) { return !isNaN(number(row.cells[column])); });
    if (numbers) return function (a, b) { return number(a.cells[column]) - number(b.cells[column]); };
    return function (a, b) { return words(a.cells[column]).localeCompare(words(b.cells[column]), undefined, { numeric: true }); };
  }
  document.querySelectorAll("table.sortable").forEach(function (table) {
    var body = table.tBodies[0];
    if (body.rows.length < 2) return;
    table.querySelectorAll("thead th").forEach(function (cell) {
      if (Array.from(body.rows).some(function (row) { return row.cells[cell.cellIndex].querySelector("svg"); })) return;
      var button = make("button", null, "", { type: "button" });
      button.append(...cell.childNodes);
      cell.append(button);
      button.addEventListener("click", function () {
        var falling = cell.getAttribute("aria-sort") !== "descending", column = cell.cellIndex;
        table.querySelectorAll("th[aria-sort]").forEach(function (other) { other.removeAttribute("aria-sort"); });
        cell.setAttribute("aria-sort", falling ? "descending" : "ascending");
        var rows = Array.from(body.rows), order = compare(column, rows);
        body.append(...rows.sort(function (a, b) { return falling ? order(b, a) : order(a, b); }));
      });
    });
  });

  addEventListener("beforeprint", function () {
    document.querySelectorAll("details").forEach(function (element) { element.open = true; });
  });
  show(nearest(data.start));
})();
