"use strict";
(function () {
  // Figures carry the light page's colours; those that are ink or paper become the page's own, whichever it is.
  const OWN = { "#1d2433": "--ink", "#495057": "--ink", "#5b6577": "--soft", "#fff": "--paper", "#ffffff": "--paper", "#dfe4ec": "--idle" };
  // Titles name the unit, so ticks are plain numbers: 12,000, never 12k.
  const NUMBERS = { exponentformat: "none", separatethousands: true };
  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

  function themed(text) {
    return text.replace(/"(#[0-9a-f]{3,6})"/g, (whole, hex) => (hex in OWN ? `"${colour(OWN[hex])}"` : whole));
  }

  function house() {
    const ink = colour("--ink"), paper = colour("--paper"), edge = colour("--edge");
    return {
      axis: { gridcolor: colour("--grid"), zerolinecolor: edge, linecolor: edge, ticks: "outside", tickcolor: edge, automargin: true, title: { standoff: 8 }, ...NUMBERS },
      layout: {
        font: { family: "system-ui, -apple-system, 'Segoe UI', Roboto, 'DejaVu Sans', sans-serif", size: 12, color: ink },
        paper_bgcolor: paper, plot_bgcolor: paper, margin: { l: 60, r: 16, t: 28, b: 44 }, bargap: 0.15,
        modebar: { bgcolor: paper, color: colour("--tool"), activecolor: colour("--accent") },
        hoverlabel: { font: { size: 12 }, align: "left" }, legend: { orientation: "h", x: 0, y: 1.02, yanchor: "bottom" },
      },
    };
  }

  const CONFIG = { responsive: true, displaylogo: false, displayModeBar: "hover", modeBarButtons: [["toImage", "pan2d", "resetScale2d"]] };

  function layoutOf(own) {
    const { axis: shared, layout: common } = house();
    const layout = Object.assign({}, common, own);
    const axes = new Set(["xaxis", "yaxis", ...Object.keys(own).filter((key) => /^[xy]axis\d*$/.test(key))]);
    for (const axis of axes) layout[axis] = Object.assign({}, shared, own[axis] || {});
    return layout;
  }

  function drawCharts(text) {
    let figures = JSON.parse(themed(text));
    const redraw = [];
    for (const box of document.querySelectorAll("[data-chart]")) {
      const choices = figures[box.dataset.chart];
      const plot = box.querySelector(".plot");
      const select = box.querySelector("select");
      const show = (index) => {
        const chosen = figures[box.dataset.chart][index];
        plot.style.height = chosen.height_px + "px";
        Plotly.react(plot, chosen.data, layoutOf(chosen.layout), CONFIG);
      };
      show(0);
      redraw.push(() => show(select ? select.selectedIndex : 0));
      if (!select) continue;
      select.addEventListener("change", () => show(Number(select.value)));
      for (const button of box.querySelectorAll("[data-move]")) {
        button.addEventListener("click", () => {
          select.selectedIndex = (select.selectedIndex + Number(button.dataset.move) + choices.length) % choices.length;
          show(select.selectedIndex);
        });
      }
    }
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
      figures = JSON.parse(themed(text));
      for (const draw of redraw) draw();
    });
  }

  function compare(a, b) {
    if (a === "" || b === "") return a === b ? 0 : a === "" ? 1 : -1;  // what was not measured stays last
    const x = Number(a), y = Number(b);
    return Number.isNaN(x) || Number.isNaN(y) ? a.localeCompare(b) : x - y;
  }

  function sortTable(table, index, header) {
    const direction = header.dataset.dir === "1" ? -1 : 1;
    for (const other of table.tHead.rows[0].cells) delete other.dataset.dir;
    header.dataset.dir = String(direction);
    const value = (row) => row.cells[index].dataset.sort ?? row.cells[index].textContent;
    const rows = Array.from(table.tBodies[0].rows);
    rows.sort((r, s) => {
      const a = value(r), b = value(s);
      return a === "" || b === "" ? compare(a, b) : direction * compare(a, b);
    });
    table.tBodies[0].append(...rows);
  }

  for (const table of document.querySelectorAll("table")) {
    Array.from(table.tHead.rows[0].cells).forEach((header, index) => header.addEventListener("click", () => sortTable(table, index, header)));
  }
  for (const input of document.querySelectorAll(".filter")) {
    input.addEventListener("input", () => {
      const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
      for (const row of input.closest("figure").querySelectorAll("tbody tr")) {
        const text = row.textContent.toLowerCase();
        row.hidden = !words.every((word) => text.includes(word));
      }
    });
  }
  const data = document.getElementById("figures");
  if (data) drawCharts(data.textContent);
})();
