"use strict";
(() => {
  const table = document.getElementById("grid"), form = document.getElementById("filter");
  form.classList.add("on");
  const rows = [...table.tBodies[0].rows], heads = [...table.tHead.rows[0].cells];
  // The names that people search for say more than the three examples of a row.
  const examples = rows.map((row) => row.cells[0].querySelector("small").textContent);
  const plain = (text) => text.toLowerCase().replace(/[^a-z0-9.]/g, "");
  const found = (row, text) => (row.dataset.names || "").split("|").filter((name) => plain(name).includes(text));
  const show = () => {
    const family = form.family.value, cuda = form.cuda.value, branch = Number(form.branch.value), text = plain(form.text.value);
    heads.forEach((head, n) => {
      const hide = n > 0 && cuda !== "" && head.dataset.cuda !== cuda;
      head.hidden = hide;
      rows.forEach((row) => { row.cells[n].hidden = hide; });
    });
    rows.forEach((row, n) => {
      const serves = (cell) => !cell.hidden && (cell.dataset.branches || "").split(" ").includes(String(branch));
      const names = text === "" ? [] : found(row, text), small = row.cells[0].querySelector("small");
      small.textContent = examples[n];
      const shows = names.length > 0 || plain(row.cells[0].textContent).includes(text);
      if (names.length > 0) small.textContent = names.slice(0, 6).join(", ");
      row.hidden = (family !== "" && row.dataset.family !== family) || !shows || (branch > 0 && ![...row.cells].some(serves));
    });
  };
  form.addEventListener("input", show);
  form.addEventListener("submit", (event) => event.preventDefault());
})();
