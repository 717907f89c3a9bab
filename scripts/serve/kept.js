// kept.js - what a reload of the page keeps: the fields, the choice on a map, and the jobs that the last
// button started. After the reload that button is pressed again, and its jobs are found in place of new ones.
const KEY = "organ-kept", readers = /^organ-(compare|measure|check|info)\b/;
let old = null; // of before the reload, until the view is complete
try { old = JSON.parse(sessionStorage.getItem(KEY)); } catch { /* nothing kept */ }
sessionStorage.removeItem(KEY);
let fields = [], extras = new Map(), action = null, pressed = "", replay = null, arming = false;

const valueOf = (c) => (c.type === "checkbox" ? c.checked : c.value);
function assign(c, v) {
  if (c.type === "checkbox") c.checked = v;
  else if (c.tagName !== "SELECT" || [...c.options].some((o) => o.value === v)) c.value = v;
}

export function begin() {
  if (old && old.hash !== location.hash) old = null;
  fields = [];
  extras = new Map();
  action = replay = null;
  pressed = "";
}

// Registers a control by its label, and gives it the value of before the reload.
export function keep(label, control) {
  if (control.type === "file" || control.type === "password") return;
  const key = label + " " + fields.filter((f) => f.label === label).length;
  fields.push({ label, key, control });
  if (old && old.values[key] !== undefined) assign(control, old.values[key]);
}

// Something else to keep: get() is asked when the page is left; returns what it gave before the reload.
export function also(name, get) {
  extras.set(name, get);
  return old ? old.extras[name] : undefined;
}

// Called when the view is complete. Its defaults may have replaced values, such as a free name for the output.
export function restore(main) {
  const o = old;
  if (!o) return;
  for (const f of fields) {
    if (o.values[f.key] === undefined || valueOf(f.control) === o.values[f.key]) continue;
    assign(f.control, o.values[f.key]);
    f.control.dispatchEvent(new Event("input", { bubbles: true }));
  }
  old = null;
  const button = o.action && [...main.querySelectorAll("button")].find((b) => b.textContent === o.action.label && !b.disabled);
  if (!button) return;
  action = o.action;
  replay = o.action.jobs;
  arming = true;
  button.click();
  arming = false;
}

// The id of a job of before the reload; null: none, and none may start; undefined: start one.
export const jobOf = (line) => (replay ? replay[line] ?? (readers.test(line) ? undefined : null) : undefined);
export function started(line, id) {
  if (pressed) action = { label: pressed, jobs: {}, sure: false };
  pressed = "";
  if (action) action.jobs[line] = id;
}
// Whether a warning was answered with yes before the reload.
export const wasSure = () => !!replay && action.sure;
export const beSure = () => { if (action) action.sure = true; };

document.addEventListener("click", (e) => {
  const b = e.target.closest("main button");
  if (!b || arming || b.dataset.sure) return;
  pressed = b.textContent;
  replay = null;
}, true);
addEventListener("pagehide", () => {
  const values = {}, count = new Map();
  for (const f of fields.filter((x) => x.control.isConnected)) {
    const n = count.get(f.label) || 0;
    count.set(f.label, n + 1);
    values[f.label + " " + n] = valueOf(f.control);
  }
  const rest = Object.fromEntries([...extras].map(([k, get]) => [k, get()]));
  try { sessionStorage.setItem(KEY, JSON.stringify({ hash: location.hash, values, extras: rest, action })); } catch { /* too large */ }
});
