// Three comforts that every page works without: the price while a question is typed, copying, and waiting for an answer.
"use strict";

const form = document.querySelector("form[data-price]");
const panel = document.querySelector("#price");
let turn = 0, timer = 0;

// Fetch the part of the page that the server draws for the question as it is now, and put it where the old one was.
async function showPrice() {
  const mine = ++turn;
  panel.setAttribute("aria-busy", "true");
  const response = await fetch(form.dataset.price, { method: "POST", body: new URLSearchParams(new FormData(form)) });
  const text = await response.text();
  if (mine !== turn) return; // an older question was answered late
  if (response.redirected) return location.reload(); // the session has ended
  const drawn = new DOMParser().parseFromString(text, "text/html");
  panel.replaceChildren(...drawn.body.childNodes);
  panel.removeAttribute("aria-busy");
}

if (form && panel) {
  const soon = () => { clearTimeout(timer); timer = setTimeout(() => showPrice().catch(() => {}), 250); };
  for (const field of form.elements) if (field.name !== "purpose") field.addEventListener("input", soon);
  if ("missing" in panel.dataset) soon();
}

for (const text of document.querySelectorAll("pre[data-copy]")) {
  const button = document.createElement("button");
  button.type = "button";
  button.className = "quiet copy";
  button.textContent = "Copy";
  button.addEventListener("click", async () => {
    await navigator.clipboard.writeText(text.textContent);
    button.textContent = "Copied";
  });
  text.after(button);
}

if (document.querySelector("[data-reload]")) setTimeout(() => location.reload(), 2000);
