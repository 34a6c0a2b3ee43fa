"use strict";
(() => {
  const table = document.getElementById("grid"), form = document.getElementById("filter");
  form.classList.add("on");
  const rows = [...table.tBodies[0].rows], heads = [...table.tHead.rows[0].cells];
  const show = () => {
    const family = form.family.value, cuda = form.cuda.value, branch = Number(form.branch.value), text = form.text.value.toLowerCase();
    heads.forEach((head, n) => {
      const hide = n > 0 && cuda !== "" && head.dataset.cuda !== cuda;
      head.hidden = hide;
      rows.forEach((row) => { row.cells[n].hidden = hide; });
    });
    rows.forEach((row) => {
      const serves = (cell) => !cell.hidden && (cell.dataset.branches || "").split(" ").includes(String(branch));
      row.hidden = (family !== "" && row.dataset.family !== family) || !row.cells[0].textContent.toLowerCase().includes(text)
        || (branch > 0 && ![...row.cells].some(serves));
    });
  };
  form.addEventListener("input", show);
  form.addEventListener("submit", (event) => event.preventDefault());
})();
