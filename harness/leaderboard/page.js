"use strict";
// A click on a column's header sorts the table by it; another one turns the order round.
for (const table of document.querySelectorAll("table.sortable")) {
  const headers = [...table.tHead.rows[0].cells];
  headers.forEach((header, column) => {
    header.querySelector("button").addEventListener("click", () => {
      const descending = header.getAttribute("aria-sort") === "ascending";
      headers.forEach((other) => other.removeAttribute("aria-sort"));
      header.setAttribute("aria-sort", descending ? "descending" : "ascending");
      const key = (row) => row.cells[column].dataset.key;
      const compare = (one, two) => {
        const [a, b] = [key(one), key(two)];
        // What is not known comes last, whichever way.
        if (a === "" || b === "") return (a === "") - (b === "");
        const numbers = [Number(a), Number(b)];
        const order = numbers.some(Number.isNaN) ? a.localeCompare(b) : numbers[0] - numbers[1];
        return descending ? -order : order;
      };
      const body = table.tBodies[0];
      body.append(...[...body.rows].sort(compare));
    });
  });
}
