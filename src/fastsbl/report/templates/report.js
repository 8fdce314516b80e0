"use strict";
(() => {
  for (const figure of document.querySelectorAll("figure.slider")) {
    const control = figure.querySelector(".control");
    const range = control.querySelector("input");
    const steps = [...figure.querySelectorAll(".step")];
    const show = () => {
      const chosen = Number(range.value);
      steps.forEach((step, k) => step.classList.toggle("current", k === chosen));
      control.querySelector("output").textContent = steps[chosen].dataset.label;
      range.setAttribute("aria-valuetext", steps[chosen].dataset.label);
    };
    control.hidden = false;
    figure.classList.add("live");
    range.addEventListener("input", show);
    show();
  }

  const compare = (a, b) => {
    const x = Number(a), y = Number(b);
    if (a !== "" && b !== "" && !Number.isNaN(x) && !Number.isNaN(y)) return x - y;
    if (a === "" || b === "") return (a === "") - (b === "");
    return a.localeCompare(b, undefined, { numeric: true });
  };
  const key = (row, column) => row.cells[column].dataset.key ?? row.cells[column].textContent.trim();

  for (const table of document.querySelectorAll("table.sortable")) {
    const heads = [...table.tHead.rows[0].cells];
    heads.forEach((head, column) => {
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = head.textContent;
      head.replaceChildren(button);
      button.addEventListener("click", () => {
        const down = head.getAttribute("aria-sort") === "ascending";
        heads.forEach((other) => other.removeAttribute("aria-sort"));
        head.setAttribute("aria-sort", down ? "descending" : "ascending");
        const rows = [...table.tBodies[0].rows];
        rows.sort((a, b) => compare(key(a, column), key(b, column)) * (down ? -1 : 1));
        table.tBodies[0].append(...rows);
      });
    });
  }
})();
