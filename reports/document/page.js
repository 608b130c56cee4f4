(function () {
  "use strict";
  var holder = document.getElementById("timeline-data");
  var charts = Array.prototype.slice.call(document.querySelectorAll("figure[data-chart]"));
  if (holder && charts.length) {
    var data = JSON.parse(holder.textContent);
    var times = data.t;
    var shown = -1;
    var units = ["B", "KiB", "MiB", "GiB", "TiB"];
    var text = function (value, unit) {
      if (value === null) return "not read";
      if (unit !== "bytes") return (Math.round(value * 100) / 100) + (unit === "1" ? "" : " " + unit);
      var step = 0;
      while (value >= 1024 && step < 4) { value /= 1024; step += 1; }
      return (step ? value.toFixed(1) : value) + " " + units[step];
    };
    var show = function (index) {
      shown = Math.max(0, Math.min(times.length - 1, index));
      var x = 1000 * (times[shown] - data.from) / (data.to - data.from || 1);
      charts.forEach(function (figure) {
        var chart = data.charts[Number(figure.dataset.chart)];
        var cursor = figure.querySelector(".cursor");
        cursor.setAttribute("d", "M" + x + " 0V100");
        cursor.removeAttribute("visibility");
        figure.querySelector("output").textContent = times[shown].toFixed(1) + " s: " +
          chart.names.map(function (name, i) {
            return name + " " + text(chart.values[i][shown], chart.unit);
          }).join(", ");
      });
    };
    var nearest = function (time) {
      var low = 0, high = times.length - 1;
      while (high - low > 1) {
        var middle = (low + high) >> 1;
        if (times[middle] < time) { low = middle; } else { high = middle; }
      }
      return time - times[low] < times[high] - time ? low : high;
    };
    charts.forEach(function (figure) {
      var svg = figure.querySelector(".chart");
      svg.addEventListener("pointermove", function (event) {
        var box = svg.getBoundingClientRect();
        show(nearest(data.from + (data.to - data.from) * (event.clientX - box.left) / box.width));
      });
      svg.addEventListener("keydown", function (event) {
        var steps = { ArrowLeft: -1, ArrowRight: 1, PageUp: -20, PageDown: 20 };
        if (event.key === "Home") { show(0); }
        else if (event.key === "End") { show(times.length - 1); }
        else if (steps[event.key]) { show(shown + steps[event.key]); }
        else { return; }
        event.preventDefault();
      });
    });
  }
  // Rows that are set one cell below the other name their columns themselves.
  document.querySelectorAll("table").forEach(function (table) {
    var heads = table.querySelectorAll("thead th");
    table.querySelectorAll("tbody tr").forEach(function (row) {
      Array.prototype.forEach.call(row.cells, function (cell, i) {
        if (heads[i] && cell.textContent) cell.dataset.label = heads[i].textContent;
      });
    });
    table.classList.add("labelled");
  });
  // A command can be copied without its prompt, its wrapping or a neighbour.
  document.querySelectorAll("pre, .card li p > code").forEach(function (code) {
    var button = document.createElement("button");
    button.type = "button";
    button.textContent = "Copy";
    button.setAttribute("aria-label", "Copy " + code.textContent.trim());
    button.addEventListener("click", function () {
      var range = document.createRange();
      range.selectNodeContents(code);
      var selection = window.getSelection();
      selection.removeAllRanges();
      selection.addRange(range);
      button.textContent = document.execCommand("copy") ? "Copied" : "Press Ctrl+C";
    });
    var line = document.createElement(code.tagName === "PRE" ? "div" : "span");
    line.className = "command";
    code.replaceWith(line);
    line.append(code, button);
    code.classList.add("scroll");
  });
  // What is wider than its box can be scrolled with the keyboard, and says so.
  var boxes = Array.prototype.slice.call(document.querySelectorAll(".scroll"));
  var mark = function () {
    boxes.forEach(function (box) {
      // The hint itself changes what is measured.
      ["tabindex", "role", "aria-label"].forEach(function (name) { box.removeAttribute(name); });
      if (box.scrollWidth <= box.clientWidth + 1) { return; }
      box.tabIndex = 0;
      box.setAttribute("role", "group");
      box.setAttribute("aria-label", "Scrolls sideways");
    });
  };
  mark();
  window.addEventListener("resize", mark);
  document.querySelectorAll("details").forEach(function (each) { each.addEventListener("toggle", mark); });
  var closed = [];
  window.addEventListener("beforeprint", function () {
    closed = Array.prototype.slice.call(document.querySelectorAll("details:not([open])"));
    closed.forEach(function (each) { each.open = true; });
  });
  window.addEventListener("afterprint", function () {
    closed.forEach(function (each) { each.open = false; });
  });
})();
