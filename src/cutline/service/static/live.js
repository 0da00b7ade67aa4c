// The live price: asks for a quote whenever the question changes. Without it, "Check the price" does the same.
"use strict";
const form = document.querySelector("form[data-quotes]");
const panel = document.querySelector("#price");
let asked = 0;

function question(form) {
  const given = new FormData(form);
  const text = (name) => (given.get(name) || "").toString().trim() || null;
  return {
    item: text("item"), filter: text("filter"), by: text("by"), share: text("share"),
    k: text("k") === null ? null : Number(text("k")), counts: given.get("counts") !== null,
  };
}

function line(term, value) {
  const dt = document.createElement("dt"), dd = document.createElement("dd");
  dt.textContent = term;
  dd.textContent = value;
  return [dt, dd];
}

function show(price) {
  const seen = price.seen_nine_in_ten;
  const facts = [
    line("takes", `${price.share_percent.toPrecision(3)} % of this period's budget`),
    line("left", `${price.questions_left.left} of ${price.questions_left.of} usual questions`),
    line("found nine times in ten", seen === null ? "cannot be said in one number" : `${price.finds}: ${seen.toLocaleString("en")}`),
    line("promise", price.guarantee),
  ];
  const list = document.createElement("dl");
  list.append(...facts.flat());
  panel.replaceChildren(list);
  if (!price.affordable) refuse("There is not enough left for this question.");
}

function refuse(words) {
  const told = document.createElement("p");
  told.className = "refusal";
  told.textContent = words;
  panel.append(told);
}

async function update() {
  const turn = ++asked;
  const response = await fetch(form.dataset.quotes, {
    method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(question(form)),
  });
  const told = await response.json();
  if (turn !== asked) return; // an older question was answered late
  if (response.ok) return show(told);
  panel.replaceChildren();
  refuse(`${told.rule}. ${told.way_out}`);
}

if (form && panel) {
  let timer = 0;
  form.addEventListener("input", () => { clearTimeout(timer); timer = setTimeout(() => update().catch(() => {}), 250); });
}
