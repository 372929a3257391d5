"use strict";
(function () {
  const FONT = { family: "system-ui, -apple-system, 'Segoe UI', Roboto, 'DejaVu Sans', sans-serif", size: 12, color: "#1d2433" };
  const AXIS = { gridcolor: "#e8ecf3", zerolinecolor: "#c8d0dd", linecolor: "#c8d0dd", ticks: "outside", tickcolor: "#c8d0dd", automargin: true, title: { standoff: 8 } };
  const HOUSE = {
    font: FONT, paper_bgcolor: "#fff", plot_bgcolor: "#fff", margin: { l: 60, r: 16, t: 12, b: 44 }, bargap: 0.15,
    modebar: { bgcolor: "rgba(255,255,255,0.8)", color: "#9aa4b5", activecolor: "#2563a8" },
    hoverlabel: { font: { size: 12 }, align: "left" }, legend: { orientation: "h", x: 0, y: 1.02, yanchor: "bottom" },
  };
  const CONFIG = { responsive: true, displaylogo: false, displayModeBar: "hover", modeBarButtons: [["toImage", "pan2d", "resetScale2d"]] };

  function layoutOf(own) {
    const layout = Object.assign({}, HOUSE, own);
    const axes = new Set(["xaxis", "yaxis", ...Object.keys(own).filter((key) => /^[xy]axis\d*$/.test(key))]);
    for (const axis of axes) layout[axis] = Object.assign({}, AXIS, own[axis] || {});
    return layout;
  }

  function drawCharts(figures) {
    for (const box of document.querySelectorAll("[data-chart]")) {
      const choices = figures[box.dataset.chart];
      const plot = box.querySelector(".plot");
      const select = box.querySelector("select");
      const show = (index) => {
        plot.style.height = choices[index].height_px + "px";
        Plotly.react(plot, choices[index].data, layoutOf(choices[index].layout), CONFIG);
      };
      show(0);
      if (!select) continue;
      select.addEventListener("change", () => show(Number(select.value)));
      for (const button of box.querySelectorAll("[data-move]")) {
        button.addEventListener("click", () => {
          select.selectedIndex = (select.selectedIndex + Number(button.dataset.move) + choices.length) % choices.length;
          show(select.selectedIndex);
        });
      }
    }
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
  if (data) drawCharts(JSON.parse(data.textContent));
})();
