// page.js - the frame of the page: login, navigation, and which view is shown.
import * as api from "./api.js";
import * as kept from "./kept.js";
import { h, fill, field } from "./dom.js";
import { store } from "./store.js";
import { modelsView, modelView } from "./models.js";
import { measureView, compareView } from "./study.js";
import { graftView, mergeView } from "./surgery.js";
import { stackView, quantizeView, loraView, pruneView, purifyView, validateView } from "./build.js";
import { keysView } from "./keys.js";
import { vocabularyView } from "./vocabulary.js";
import { jobsView } from "./run.js";

const main = document.getElementById("main"), top = document.getElementById("top");
const tabs = [["models", "Models", modelsView], ["measure", "Measure", measureView], ["compare", "Compare", compareView], ["graft", "Graft", graftView],
  ["merge", "Merge", mergeView], ["stack", "Stack", stackView], ["quantize", "Quantize", quantizeView], ["adapter", "Adapter", loraView], ["prune", "Prune", pruneView], ["purify", "Purify", purifyView], ["validate", "Validate", validateView], ["vocabulary", "Vocabulary", vocabularyView], ["keys", "Keys", keysView], ["jobs", "Jobs", jobsView]];
let running = null; // aborts what the last view still waits for

function theme() {
  const now = document.documentElement.dataset.theme || (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
  const next = now === "dark" ? "light" : "dark";
  document.documentElement.dataset.theme = next;
  localStorage.setItem("organ-theme", next);
}

function drawTop(here) {
  fill(top, h("div", { class: "bar" }, h("a", { class: "brand", href: "#/models" }, h("img", { src: "web/icon.svg", alt: "", width: 20, height: 20 }), "Organ suite"),
    api.hasToken() ? h("nav", { "aria-label": "Pages" }, tabs.map(([key, text]) => h("a", { href: "#/" + key, "aria-current": key === here || (key === "models" && here === "model") ? "page" : null }, text))) : null,
    h("div", { class: "tools" }, h("button", { type: "button", class: "quiet", id: "theme", onclick: theme }, "Theme"),
      api.hasToken() ? h("button", { type: "button", class: "quiet", onclick: () => api.logout() }, "Log out") : null)));
  const current = top.querySelector("[aria-current]");
  if (current) current.scrollIntoView({ block: "nearest", inline: "nearest" });
}

function loginView(why) {
  drawTop();
  document.title = "Log in · Organ suite";
  const token = h("input", { type: "password", required: true, autocomplete: "current-password", spellcheck: "false" });
  const error = h("p", { class: "error", role: "alert" }, why || "");
  const send = h("button", { class: "primary" }, "Log in");
  fill(main, h("form", { class: "card login", onsubmit: async (e) => {
    e.preventDefault();
    error.textContent = "";
    send.disabled = true;
    try {
      store.health = await api.login(token.value.trim());
      show();
    } catch (problem) {
      error.textContent = problem.message;
      token.select();
    }
    send.disabled = false;
  } }, h("h1", null, "Log in"), field("Token", token, "organ-serve prints it as ORGAN_TOKEN when it starts."), error, h("div", { class: "actions" }, send)));
  token.focus();
}

async function show() {
  if (running) running.abort();
  if (!api.hasToken()) return loginView();
  const mine = running = new AbortController();
  const [path, query] = location.hash.slice(1).split("?");
  const parts = path.split("/").filter(Boolean);
  const key = parts[0] || "models";
  let rest = "";
  try { rest = decodeURIComponent(parts[1] || ""); } catch { /* not our link */ }
  drawTop(key);
  const tab = tabs.find(([k]) => k === key);
  document.title = (key === "model" ? rest : tab ? tab[1] : "Models") + " · Organ suite";
  const box = h("div", { class: "view", "aria-busy": key !== "jobs" && "true" }); // that of jobs reads on and on
  fill(main, box);
  kept.begin();
  try {
    if (key === "model") await modelView(box, mine.signal, rest);
    else if (key === "jobs") await jobsView(box, mine.signal, rest);
    else await (tab ? tab[2] : modelsView)(box, mine.signal, new URLSearchParams(query || ""));
    if (!mine.signal.aborted) kept.restore(box);
  } catch (e) {
    if (!mine.signal.aborted && api.hasToken()) fill(box, h("h1", null, "This did not work"), h("p", { class: "error", role: "alert" }, e.message));
  }
  box.removeAttribute("aria-busy");
}

// A form that is rejected leaves no result of an earlier run on the page.
addEventListener("invalid", () => {
  for (const e of main.querySelectorAll(".panel")) { e.replaceChildren(); e.removeAttribute("data-state"); }
  for (const e of main.querySelectorAll(".created")) e.remove();
}, true);

// The link that organ-serve prints has the token in its fragment, which no server sees. It is used once, and
// leaves the address at once.
async function start() {
  const [, given] = /^#token=([\w.~+\/=-]+)$/.exec(location.hash) || [];
  if (!given) return show();
  history.replaceState(null, "", location.pathname);
  try {
    store.health = await api.login(given);
  } catch (e) { return loginView("The token of this link does not work: " + e.message); }
  return show();
}

const colours = localStorage.getItem("organ-theme");
if (colours === "dark" || colours === "light") document.documentElement.dataset.theme = colours;
api.onLogout((why) => { if (running) running.abort(); loginView(why); });
addEventListener("hashchange", () => { document.getElementById("notes").replaceChildren(); show(); main.focus({ preventScroll: true }); scrollTo(0, 0); });
start();
