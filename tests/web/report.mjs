// report.mjs - the pages of organ-report in headless Chromium: node report.mjs CHROMIUM PROFILE PAGE...
// At several widths, light and dark, nothing may leave the window, no text may overlap another, and no
// picture may cut off its text. The first page is also printed, where no table may be cut off, and
// shown without scripts; its tables are sorted, and the theme is switched. A page in a folder "fifty" prints on at
// most 8 pages. PICTURES=DIR keeps screenshots.
import { mkdirSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import { pathToFileURL } from "node:url";
import { Browser, Page } from "./cdp.mjs";

const [chromium, profile, ...pages] = process.argv.slice(2);
const { PICTURES } = process.env;
let passed = 0, failed = 0;
const same = (got, want, what) => {
  if (got === want) passed++;
  else { failed++; console.log("FAIL report.mjs: " + what + ": " + JSON.stringify(got) + ", " + JSON.stringify(want) + " wanted"); }
};

// The boxes of all texts as far as the frames around them show them, compared from the top down.
const layout = `(() => {
  const out = [], width = innerWidth, boxes = [];
  if (document.scrollingElement.scrollWidth > width) out.push("the page is " + document.scrollingElement.scrollWidth + " wide");
  const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let n = walk.nextNode(); n; n = walk.nextNode()) {
    const e = n.parentElement;
    if (!n.data.trim() || e.closest("title, script, style, nav") || e.closest("details:not([open]) > :not(summary)") || getComputedStyle(e).visibility === "hidden") continue;
    const range = document.createRange();
    range.selectNodeContents(n);
    // of a text in a picture the whole element, which may be squeezed
    for (const r of e.closest("svg") ? [e.getBoundingClientRect()] : range.getClientRects()) {
      const svg = e.closest("svg"), frame = e.closest(".scroll");
      let [left, right, top, bottom] = [r.left, r.right, r.top, r.bottom];
      if (svg) {
        const s = svg.getBoundingClientRect();
        if (!svg.closest(".plot") && (left < s.left - 1 || right > s.right + 1 || top < s.top - 2 || bottom > s.bottom + 2)) out.push("cut off: " + n.data.slice(0, 40));
        top += r.height * 0.15; bottom -= r.height * 0.15;
      }
      if (frame) { const f = frame.getBoundingClientRect(); left = Math.max(left, f.left); right = Math.min(right, f.right); }
      else if (right > width + 0.5 || left < -0.5) out.push("leaves the window: " + n.data.slice(0, 40));
      if (right - left > 1.5 && bottom - top > 1.5) boxes.push({ left, right, top, bottom, text: n.data.slice(0, 40) });
    }
  }
  boxes.sort((a, b) => a.top - b.top);
  for (let i = 0; i < boxes.length; i++) for (let j = i + 1; j < boxes.length && boxes[j].top < boxes[i].bottom - 1.5; j++) {
    const a = boxes[i], b = boxes[j];
    if (a.right - b.left >= 1.5 && b.right - a.left >= 1.5) out.push("'" + a.text + "' overlaps '" + b.text + "'");
  }
  return boxes.length < 100 ? "only " + boxes.length + " texts" : [...new Set(out)].slice(0, 5).join(" | ");
})()`;

const press = `(() => {
  const t = document.querySelector("#wells table"), col = 5, say = [];
  const order = () => Array.from(t.tBodies[0].rows).map((r) => parseFloat(r.cells[col].dataset.v));
  const sorted = (a, s) => a.every((v, i) => !i || s * a[i - 1] <= s * v);
  const head = () => t.tHead.rows[0].cells[col].querySelector("button").click();
  head(); say.push(sorted(order(), -1) ? "descending" : "unsorted");
  head(); say.push(sorted(order(), 1) ? "ascending" : "unsorted");
  const before = getComputedStyle(document.body).backgroundColor;
  document.getElementById("theme").click();
  say.push(getComputedStyle(document.body).backgroundColor !== before ? "themed" : "same");
  localStorage.clear();
  return say.join(" ");
})()`;

const browser = new Browser(chromium, profile);
try {
  const p = await Page.open(browser);
  if (PICTURES) mkdirSync(PICTURES, { recursive: true });
  for (const page of pages) {
    const name = basename(dirname(page));
    const look = async (what) => {
      same(await p.eval(layout), "", name + " " + what);
      if (PICTURES) await p.picture(join(PICTURES, name + "-" + what.replaceAll(/[^a-z0-9]+/g, "-") + ".png"));
    };
    await p.size(1280, 900);
    await p.scheme("light");
    await p.goto(pathToFileURL(page).href);
    if (page === pages[0]) {
      same(await p.eval(press), "descending ascending themed", "sorting and the theme");
      await p.goto("about:blank");
      await p.goto(pathToFileURL(page).href);
    }
    const light = await p.eval("getComputedStyle(document.body).backgroundColor");
    for (const [width, scheme] of [[400, "light"], [800, "dark"], [1600, "light"], ...(PICTURES ? [[400, "dark"], [1200, "light"], [1200, "dark"]] : [])]) {
      await p.size(width, 900);
      await p.scheme(scheme);
      if (width === 800) await p.eval("document.querySelectorAll('details').forEach((d) => { d.open = true; })");
      await look(width + " " + scheme);
      same(await p.eval("getComputedStyle(document.body).backgroundColor") === light, scheme === "light", name + ": " + scheme);
    }
    if (name === "fifty") { // a fleet of 50 models, on A4
      const { data } = await p.send("Page.printToPDF", { paperWidth: 8.27, paperHeight: 11.69 });
      const sheets = Buffer.from(data, "base64").toString("latin1").match(/\/Type\s*\/Page\b/g).length;
      same(sheets > 1 && sheets <= 8 ? "" : sheets, "", name + ": number of printed pages");
    }
    if (page !== pages[0]) { // the rest does not depend on the names in the page
      same(p.problems.splice(0).join(" | "), "", name + ": errors in the console");
      continue;
    }
    await p.size(720, 1000);
    await p.send("Emulation.setEmulatedMedia", { media: "print", features: [{ name: "prefers-color-scheme", value: "dark" }] });
    await p.eval("document.documentElement.dataset.theme = 'dark'");
    same(await p.eval("getComputedStyle(document.body).color"), "rgb(23, 32, 43)", name + ": dark text on paper");
    await look("printed");
    same(await p.eval("[...document.querySelectorAll('.scroll')].filter((e) => e.scrollWidth > e.clientWidth + 1).map((e) => e.textContent.slice(0, 60)).join(' | ')"), "", name + ": cut off on paper");
    await p.send("Emulation.setEmulatedMedia", { media: "", features: [] });
    same(p.problems.splice(0).join(" | "), "", name + ": errors in the console");
    await p.send("Emulation.setScriptExecutionDisabled", { value: true });
    await p.reload();
    same(await p.eval("document.querySelectorAll('th button').length + ' ' + document.getElementById('theme').hidden"), "0 true", name + ": no scripts ran");
    await look("without scripts");
    await p.send("Emulation.setScriptExecutionDisabled", { value: false });
  }
} catch (e) {
  failed++;
  console.log("FAIL report.mjs: " + e.message);
}
await browser.close();
console.log("report.mjs: " + passed + " passed, " + failed + " failed");
process.exit(failed ? 1 : 0);
