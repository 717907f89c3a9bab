// page.mjs - what people do on the page of organ-serve, in a real browser: log in, upload, choose
// on the map, graft, watch, download. The downloaded bytes must be those of the command line that
// the page shows. Hostile names must stay text. Nothing may leave the window or overlap.
import { execFileSync } from "node:child_process";
import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { Browser, Page } from "./cdp.mjs";

const { T, BIN, URL: url, TOKEN, CHROMIUM, PICTURES, SERVER } = process.env;
let passed = 0, failed = 0;
const good = (ok, what) => {
  if (ok) passed++;
  else { failed++; console.log("FAIL page.mjs (" + SERVER + "): " + what); }
};
const same = (got, want, what) => good(got === want, what + ": " + JSON.stringify(got) + ", " + JSON.stringify(want) + " wanted");
const browser = new Browser(CHROMIUM, join(T, "profile-" + SERVER));
const downloads = join(T, "downloads");
const p = await Page.open(browser, downloads);
const q = JSON.stringify;
const text = (selector) => p.eval(`document.querySelector(${q(selector)})?.innerText ?? null`);
const count = (selector) => p.eval(`document.querySelectorAll(${q(selector)}).length`);
const shown = (selector, what) => p.until(`document.querySelector(${q(selector)})`, what ?? selector);
const quiet = (allowed) => { // no exception, nothing refused by the policy, no dialog
  const bad = p.problems.splice(0).filter((x) => !allowed || !allowed.test(x));
  same(bad.join(" | "), "", "errors in the console");
};
// A view that was left is never taken for the next one, and a view is used once all that it reads has arrived.
const view = async (hash, selector) => {
  await p.eval(`(() => { const here = location.hash, old = document.querySelector("main > *"); location.hash = ${q(hash)}; if (location.hash !== here) old?.classList.add("left"); })()`);
  await p.until(`!document.querySelector(".left, main [aria-busy]")`, "a new view of " + hash);
  await shown(selector, hash);
};
const press = async (label, within = "main") => {
  const button = `[...document.querySelectorAll(${q(within + " button")})].find((x) => x.textContent === ${q(label)} && !x.disabled)`;
  await p.until(button, "a button " + label);
  await p.eval(button + ".click()");
};
const set = async (selector, value) => {
  await shown(selector);
  await p.eval(`(() => { const e = document.querySelector(${q(selector)}); e.value = ${q(value)}; for (const t of ["input", "change"]) e.dispatchEvent(new Event(t, { bubbles: true })); })()`);
};
const labelled = async (label) => {
  const found = `[...document.querySelectorAll("main label")].find((x) => x.textContent === ${q(label)})`;
  await p.until(found, "a field " + label);
  return "#" + await p.eval(found + ".htmlFor");
};
const reload = async (selector) => { await p.reload(); await shown(selector, "after the reload"); };
const lineOf = (tool) => p.eval(`[...document.querySelectorAll("main .command code")].map((c) => c.textContent).find((x) => x.startsWith(${q(tool)}))`);
const jobs = () => p.eval("import('./web/api.js').then((a) => a.jobs(1000)).then((j) => j.length)");
const command = () => p.eval(`document.querySelector("main .command code").textContent`);
// Whether a file comes to have these bytes. It may be there before all of it is written.
const arrives = async (path, want, ms = 180000) => {
  for (const end = Date.now() + ms; ; await new Promise((r) => setTimeout(r, 50))) {
    if (existsSync(path) && readFileSync(path).equals(want)) return true;
    if (Date.now() > end) return false;
  }
};

// The file that the page saves, and the one that its command line writes.
async function check(name, line, what) {
  for (const dir of [downloads, join(T, "here")]) rmSync(join(dir, name), { force: true });
  execFileSync("sh", ["-c", line.replaceAll("organ-", BIN + "/organ-") + " 2> log"], { cwd: join(T, "here") });
  const want = readFileSync(join(T, "here", name)), button = `.created [data-download=${q(name)}]`;
  let got = false; // a browser may refuse a file while it is busy
  for (let tries = 0; !got && tries < 4; tries++) {
    await p.until(`document.querySelector(${q(button)})?.disabled === false`, "the download of " + name);
    await p.click(button);
    await p.until(`document.querySelector(${q(button)})?.disabled === false`, "the end of the download of " + name);
    got = await arrives(join(downloads, name), want, 15000);
  }
  good(got, what + ": the download is not what the command line writes");
}

async function login() {
  await p.size(1100, 900);
  await p.goto(url);
  await shown(".login input");
  await p.type("a wrong token of enough length");
  await p.key("Enter", 13, "\r");
  await p.until(`document.querySelector(".login .error").textContent`, "a wrong token");
  same(await text(".login .error"), "This token is wrong.", "a wrong token");
  same(await count("nav a"), 0, "no pages without a token");
  same(await p.eval("sessionStorage.getItem('organ-token')"), null, "a wrong token is not kept");
  quiet(/401|404/);
  await p.eval("document.querySelector('.login input').focus()");
  await set(".login input", "");
  await p.type(TOKEN);
  await p.key("Enter", 13, "\r");
  await shown("form.upload", "logged in");
  same(await p.eval("localStorage.getItem('organ-token') || document.cookie || location.search + location.hash"), "", "the token is in sessionStorage only");
  quiet(/404/);
  // The link of the first visit.
  await press("Log out", "header");
  for (const [token, selector] of [["a-wrong-token-of-enough-length", ".login input"], [TOKEN, "form.upload"]]) {
    await p.goto("about:blank");
    await p.goto(url + "#token=" + token);
    await shown(selector, "the link with " + token);
    same(await p.eval("location.hash + location.search + [...Array(history.length)].length"), String(await p.eval("history.length")), "no token in the address");
  }
  quiet(/401|404/);
}

async function policy() {
  same(await p.eval("(() => { try { document.querySelector('main').innerHTML = '<b>x</b>'; return 'parsed'; } catch (e) { return e.name; } })()"), "TypeError", "HTML is never parsed");
  same(await p.eval("(() => { const s = document.createElement('style'); s.textContent = 'body { color: red }'; document.head.append(s); return getComputedStyle(document.body).color; })()") === "rgb(255, 0, 0)", false, "no inline styles");
  p.problems.length = 0;
}

async function upload(name) {
  await view("#/models", "form.upload");
  await p.files("input[type=file]", [join(T, "here", name)]);
  await p.until(`document.querySelector(${q("form.upload input[type=text]")}).value === ${q(name)}`);
  await press("Upload");
}

async function uploads() {
  for (const name of ["verse.gguf", "code.gguf"]) {
    await upload(name);
    await p.until(`[...document.querySelectorAll("td a")].some((a) => a.textContent === ${q(name)})`, "the upload of " + name);
    good(readFileSync(join(T, "data", name)).equals(readFileSync(join(T, "here", name))), name + " is stored unchanged");
  }
  await p.until(`document.querySelectorAll("svg.small").length >= 3`, "small maps");
  await upload("code.gguf");
  await shown("form.upload .error");
  good((await text("form.upload .error")).includes("exists"), "an existing name is refused");
  good((await p.eval(`document.querySelector("form.upload .command code").textContent`)).startsWith("curl -H @header -T code.gguf " + url), "curl's command line");
  quiet(/409/);
  execFileSync(join(BIN, "organ-assemble"), ["-q", join(T, "here", "code.gguf"), "--dtype", "f16", "-o", join(T, "here", "code.safetensors")]);
  await upload("code.safetensors");
  await p.until(`[...document.querySelectorAll("tr")].some((r) => r.querySelector("td a")?.textContent === "code.safetensors" && r.querySelector(".kind")?.textContent === "language model")`, "the upload of safetensors");
  good(readFileSync(join(T, "data", "code.safetensors")).equals(readFileSync(join(T, "here", "code.safetensors"))), "safetensors are stored unchanged");
  await upload("text.txt");
  await p.until(`[...document.querySelectorAll("td")].some((x) => x.textContent === "text.txt")`, "the upload of a text");
  good(readFileSync(join(T, "data", "text.txt")).equals(readFileSync(join(T, "here", "text.txt"))), "a text is stored unchanged");
  quiet();
}

// Each list tells kinds apart, and the page of a model is what organ-info says.
async function kinds() {
  await view("#/models", "td .kind");
  const kind = (name) => p.until(`[...document.querySelectorAll("tr")].some((r) => r.querySelector("td a")?.textContent === ${q(name[0])} && r.querySelector(".kind")?.textContent === ${q(name[1])})`, name.join(" is a "));
  for (const name of [["verse.gguf", "language model"], ["lora.gguf", "adapter"], ["base.imatrix.gguf", "importance matrix"]]) await kind(name);
  await view("#/graft?base=verse.gguf", ".map .cell");
  same(await p.eval(`[...document.querySelectorAll("${await labelled("Base")} optgroup")].map((g) => g.label + ": " + [...g.children].some((o) => o.value === "lora.gguf")).join(", ")`),
    "", "no adapter among the bases, and so no groups");
  same(await p.eval(`[...document.querySelector("${await labelled("Base")}").options].some((o) => /lora|imatrix/.test(o.value))`), false, "a base is a model");
  await view("#/model/verse.gguf", ".info");
  const card = (await text(".info")).replaceAll("\u00a0", " ");
  for (const part of ["2.89 M", "5.18", "bits per weight", "Q4_K 59 %, Q6_K 40 %", "4 heads (2 for keys and values)", "1,024 tokens (llama)", "1.05 MB at 512 tokens", "no findings"]) good(card.includes(part), "the card has " + part + ": " + card);
  same(await lineOf("organ-info"), "organ-info verse.gguf", "the command of the card");
  await set(await labelled("Memory"), "8M");
  await press("Try");
  await p.until(`document.querySelector(".fit .output").textContent === "It fits with a context of 512 tokens, all that it was trained for."`, "it fits");
  await set(await labelled("Memory"), "1M");
  await press("Try");
  await p.until(`document.querySelector(".fit .output").textContent === "It does not fit."`, "it does not fit");
  await view("#/model/lora.gguf", ".info");
  same(await p.eval(`[...document.querySelectorAll("main a.button")].map((a) => a.textContent).join()`), "Adapter,Keys", "what one can do with an adapter");
  writeFileSync(join(T, "data", "broken.gguf"), "GGUF and no more");
  await view("#/models", "td .kind");
  await kind(["broken.gguf", "not readable"]);
  await shown("td.m .faint", "its map cannot be drawn");
  // It can be kept in order all the same, and no list offers it.
  await view("#/keys", "table");
  same(await p.eval(`[...document.querySelector("${await labelled("Model")}").options].some((o) => o.value === "broken.gguf")`), false, "a list has no file that cannot be read");
  await view("#/model/broken.gguf", ".error");
  rmSync(join(downloads, "broken.gguf"), { force: true });
  await p.click('[data-download="broken.gguf"]');
  good(await arrives(join(downloads, "broken.gguf"), Buffer.from("GGUF and no more")), "a broken file is downloaded");
  await p.click('[aria-label="Rename broken.gguf"]');
  await set('[aria-label="New name"]', "odd-end.gguf");
  await press("Rename", ".confirm");
  await shown('[aria-label="Delete odd-end.gguf"]');
  same(existsSync(join(T, "data", "odd-end.gguf")), true, "a broken file is renamed");
  await p.click('[aria-label="Delete odd-end.gguf"]');
  same(await p.eval("document.activeElement.textContent"), "Keep", "the focus is not on the button that deletes");
  await press("Delete for good");
  await p.until(`location.hash === "#/models"`, "a deleted file");
  same(existsSync(join(T, "data", "odd-end.gguf")), false, "a broken file is deleted");
  quiet(/400/);
}

// The commands of docs/walks.md for somebody with only a browser, in its order.
async function walk() {
  const rows = readFileSync("docs/walks.md", "utf8").split("## Somebody with only a browser")[1].split("\n").map((l) => /^\| ([^|]*) \| `([^`]*)` \|$/.exec(l)).filter(Boolean);
  const at = { "Models, a name in the list": "#/model/verse.gguf", "the same, Does it fit?": "", "the same, Tensors": "", Measure: "#/measure?model=verse.gguf", Compare: "#/compare?a=verse.gguf&b=code.gguf", Graft: "#/graft?base=verse.gguf&donor=code.gguf",
    Merge: "#/merge?model=base.gguf", Quantize: "#/quantize?model=verse.gguf", Adapter: "#/adapter?base=verse.gguf&tuned=code.gguf", Prune: "#/prune?model=verse.gguf&imatrix=base.imatrix.gguf", Purify: "#/purify?model=verse.gguf",
    Vocabulary: "#/vocabulary?model=verse.gguf", Validate: "#/validate?model=verse.gguf", Keys: "#/keys?model=verse.gguf" };
  same(rows.map((r) => r[1]).join(), Object.keys(at).join(), "the pages of docs/walks.md");
  for (const [, what, line] of rows) {
    if (at[what]) await view(at[what], "form, .info");
    await p.until(`[...document.querySelectorAll("main .command code")].some((c) => c.textContent.split("\\n").includes(${q(line)}))`, what + ": " + line).then(() => passed++);
  }
  quiet();
}

async function files() {
  writeFileSync(join(T, "data", "spare.gguf"), readFileSync(join(T, "data", "verse.gguf")));
  await view("#/models", "td .kind");
  await view("#/model/spare.gguf", ".info");
  await p.click('[aria-label="Rename spare.gguf"]');
  await set('[aria-label="New name"]', "verse.gguf");
  await press("Rename", ".confirm");
  await p.until(`document.querySelector("#notes .bad")?.textContent.includes("exists")`, "a name that exists is refused");
  quiet(/409/);
  await set('[aria-label="New name"]', "second.gguf");
  good((await lineOf("curl -H @header -d")).endsWith("/v1/models/spare.gguf?rename=second.gguf'"), "curl's command line for a new name");
  await press("Rename", ".confirm");
  await p.until(`location.hash === "#/model/second.gguf"`, "a renamed model");
  await shown('[aria-label="Delete second.gguf"]');
  same(existsSync(join(T, "data", "second.gguf")) && !existsSync(join(T, "data", "spare.gguf")), true, "a renamed model");
  await p.click('[aria-label="Delete second.gguf"]');
  await press("Keep", ".confirm");
  same(existsSync(join(T, "data", "second.gguf")), true, "nothing is deleted without a second word");
  await p.click('[aria-label="Delete second.gguf"]');
  await press("Delete for good");
  await p.until(`location.hash === "#/models"`, "a deleted model");
  await shown('[aria-label="Delete text.txt"]');
  same(existsSync(join(T, "data", "second.gguf")), false, "a deleted model");
  await p.click('[aria-label="Delete text.txt"]');
  await press("Delete for good");
  await p.until(`![...document.querySelectorAll("td")].some((x) => x.textContent === "text.txt")`, "a deleted text");
  same(existsSync(join(T, "data", "text.txt")), false, "a deleted text");
  quiet();
}

async function strangers() {
  await view("#/graft?base=verse.gguf&donor=stranger.gguf", ".map .cell");
  await press("Graft");
  await shown(".warning", "a warning");
  good((await text(".warning")).includes("stranger.gguf and verse.gguf"), "the warning names both");
  await press("Leave it");
  await p.until(`!document.querySelector(".warning")`);
  await press("Graft");
  await shown(".warning", "a warning");
  same(existsSync(join(T, "data", "verse-stranger.gguf")), false, "strangers are not grafted without a word");
  await press("Graft all the same");
  await shown(".created", "a graft of strangers");
  const before = await jobs();
  await reload(".created");
  same(await jobs() + " " + await count(".warning"), before + " 0", "a reload asks and starts nothing again");
  quiet();
}

async function graft() {
  await view("#/graft?base=verse.gguf&donor=code.gguf", ".map .cell");
  same(await command(), "organ-transplant --base verse.gguf --donor code.gguf --type ffn --match convert --output verse-code.gguf", "the first choice");
  await press("None");
  good(await p.eval(`document.querySelector("button.primary").disabled`), "nothing to graft");
  await p.click('[aria-label="Row ffn_up"]');
  await p.click('[aria-label="Block 3"]');
  await p.click('[aria-label="Block 3"]'); // on, then off with all its rows
  same(await command(), "organ-transplant --base verse.gguf --donor code.gguf --tensors 'blk.*.ffn_up.weight' --layers 0-2 --match convert --output verse-code.gguf", "rows and blocks");
  // By keyboard: from one cell to the one below, and toggle it.
  await p.eval(`document.querySelector('.map [aria-label^="blk.1.ffn_up.weight"]').focus()`);
  await p.key("ArrowDown", 40);
  good((await p.eval("document.activeElement.getAttribute('aria-label')")).startsWith("blk.1.ffn_down.weight"), "the arrow key moves");
  await p.key(" ", 32, " ");
  await p.key("ArrowLeft", 37);
  await p.key("ArrowLeft", 37);
  same(await p.eval("document.activeElement.getAttribute('aria-label')"), "Row ffn_down", "the arrow keys reach the heading");
  same(await count(".map [tabindex='0']"), 1, "one cell is in the tab order");
  await set(await labelled("How"), "linear");
  await set(await labelled("Donor's share"), "0.3");
  const blended = await command();
  await reload(".map .cell.on");
  await p.until(`document.querySelector("main .command code").textContent === ${q(blended)}`, "a reload keeps the form");
  await set(await labelled("How"), "");
  const line = await command();
  same(line, "organ-transplant --base verse.gguf --donor code.gguf --tensors blk.0.ffn_up.weight,blk.1.ffn_up.weight,blk.1.ffn_down.weight,blk.2.ffn_up.weight --match convert --output verse-code.gguf", "single tensors");
  await press("Preview");
  await shown(".output table", "the preview");
  same(await count(".output tbody tr"), 4, "rows of the preview");
  same(existsSync(join(T, "data", "verse-code.gguf")), false, "a preview writes nothing");
  await press("Graft");
  await shown(".created", "the graft");
  same(await p.eval(`document.querySelector(".panel").dataset.state`), "done", "the state of the job");
  await check("verse-code.gguf", line, "graft");
  const before = await jobs();
  await reload(".created");
  same(await command() + " " + await jobs(), line + " " + before, "a reload keeps form and result, and starts nothing");
  await check("verse-code.gguf", line, "the download after a reload");
  // The same as an organ directory, which is then assembled.
  await set(await labelled("Write"), "organ-graft");
  const second = await command();
  await press("Graft");
  await p.until(`document.querySelector(".created a")?.textContent === "verse-code.organs"`, "an organ directory");
  await p.click(".created a");
  await shown(".facts", "the page of the organ directory");
  await press("Assemble");
  await shown(".created", "the assembled model");
  execFileSync("sh", ["-c", second.replaceAll("organ-", BIN + "/organ-") + " 2> log"], { cwd: join(T, "here") });
  await check("verse-code-2.gguf", await lineOf("organ-assemble"), "the organ directory");
  quiet();
}

async function merge() {
  await view("#/merge?model=base.gguf", ".map .cell");
  same(await p.eval(`document.querySelector("${await labelled("Method")}").value`), "iso", "the method at first");
  same(await count(await labelled("Method") + " option"), execFileSync(BIN + "/organ-merge", ["--list-methods", "--json"]).toString().trim().split("\n").length, "all methods");
  await set(await labelled("Model"), "verse.gguf");
  await press("Add a model");
  await p.eval(`(() => { const l = [...document.querySelectorAll("main label")].filter((x) => x.textContent === "Model")[1]; const e = document.getElementById(l.htmlFor); e.value = "code.gguf"; e.dispatchEvent(new Event("change")); })()`);
  await set(await labelled("Write a model named"), "iso.gguf");
  const best = await command();
  same(best, "organ-merge --method iso --base base.gguf --model verse.gguf,weight=1 --model code.gguf,weight=1 --output iso.gguf", "iso with two fine-tunes");
  await press("Merge");
  await shown(".changes .pair .v9", "what changed");
  same(await p.eval(`[...document.querySelectorAll(".changes h3")].map((x) => x.textContent).join()`), "against base.gguf,against verse.gguf,against code.gguf", "against each parent");
  await check("iso.gguf", best, "iso");
  const drawn = await jobs();
  await reload(".changes .pair .v9");
  same(await jobs() + " " + await command(), drawn + " " + best, "a reload keeps a merge of three, and starts nothing");
  await press("Draw as SVG");
  await p.until(`document.querySelectorAll(".changes [data-download]").length === 3`, "three pictures");
  good(readFileSync(join(T, "data", "iso-against-verse.svg"), "utf8").startsWith("<svg"), "a picture");
  await view("#/merge?model=verse.gguf", ".map .cell");
  await set(await labelled("Method"), "slerp");
  await set(await labelled("Model"), "code.gguf");
  await press("None");
  await p.click('.chip[data-class="skeleton"]');
  await set('.chooser input', "1-2");
  await set(await labelled("t for the chosen tensors"), "0.25");
  const line = await command();
  same(line.replace(/attn_(q|k|v|output)/g, "attn"), "organ-merge --method 'slerp," + Array(4).fill("t:blk.*.attn.weight=[0,0.25,0.25,0]").join(",") + ",t=0' --base verse.gguf --model code.gguf --output merged.gguf", "the filters of a merge");
  await press("Preview");
  await shown(".output table", "the preview of a merge");
  await press("Merge");
  await shown(".created", "the merge");
  await check("merged.gguf", line, "merge");
  // Outside of the choice the base is unchanged.
  const rows = execFileSync(BIN + "/organ-compare", [join(T, "here", "merged.gguf"), join(T, "here", "verse.gguf"), "--type", "organ,embed"], { encoding: "utf8" });
  same(/differs/.test(rows), false, "tensors that were not chosen");
  const methods = execFileSync(BIN + "/organ-merge", ["--list-methods"], { encoding: "utf8" }).trim().split("\n").length - 1;
  same(await count((await labelled("Method")) + " option"), methods, "all methods are offered");
  await set(await labelled("Method"), "linear");
  await p.until(`document.querySelector("main .command code").textContent.includes("linear")`);
  good((await command()).startsWith("organ-merge --method linear --model verse.gguf,weight=1 --model "), "weights of a linear merge");
  quiet();
}

async function build() {
  await view("#/stack?model=verse.gguf", "form.card");
  await p.until(`document.querySelector("main .command code")?.textContent.includes(" 0-3")`, "the blocks of the model");
  await set(await labelled("Blocks, in this order"), "0-1; 3");
  good(await p.eval(`document.querySelector("button.primary").disabled`), "other text than a list of blocks is refused");
  await set(await labelled("Blocks, in this order"), "0-1,1-3");
  const line = await command();
  same(line, "organ-stack --output verse-stack.gguf verse.gguf 0-1,1-3", "a block twice");
  await press("Preview");
  await shown(".output table", "the preview of a stack");
  same(existsSync(join(T, "data", "verse-stack.gguf")), false, "the preview of a stack writes nothing");
  await press("Stack");
  await shown(".created", "the stack");
  await check("verse-stack.gguf", line, "stack");
  await press("Add blocks of a model");
  await p.until(`document.querySelectorAll("main form .row").length === 3 && !document.querySelector("button.primary").disabled`, "a second model");
  await view("#/adapter?base=verse.gguf&tuned=code.gguf", "form.card");
  same(await command(), "organ-lora --base verse.gguf --tuned code.gguf --energy 0.9 --output code-lora.gguf", "an adapter by its share");
  await set(await labelled("Keep per matrix"), "rank");
  await set(await labelled("Rank"), "2");
  await set(await labelled("Write a file named"), "z-lora.gguf");
  const lora = await command();
  await press("Write");
  await shown(".created", "the adapter");
  await check("z-lora.gguf", lora, "adapter");
  await set(await labelled("Fine-tune"), "verse.gguf");
  await press("Write");
  await shown(".panel .badge.refused", "exit 1 of a tool that writes");
  same(await text(".panel .badge"), "refused", "a refusal");
  good((await text(".messages.refused[role=alert]")).includes("organ-lora: "), "the reason of a refusal");
  same(await count(".created"), 0, "nothing was written");
  await view("#/adapter?fold=lora.gguf&base=base.gguf", "form.card");
  const fold = await command();
  same(fold, "organ-transplant --base base.gguf --adapter lora.gguf --output base-lora.gguf", "an adapter is folded in");
  await press("Write");
  await shown(".created", "the folded model");
  await check("base-lora.gguf", fold, "fold");
  await view("#/quantize?model=verse.gguf", "form.card");
  same(await command(), "organ-assemble verse.gguf --dtype q4_k_m --output verse-q4_k_m.gguf", "the preset at first");
  const gives = (words, what) => {
    const dry = Number(/(\d+) bytes in/.exec(execFileSync("sh", ["-c", BIN + "/organ-assemble verse.gguf --dtype " + words + " --dry-run 2>&1"], { cwd: join(T, "here"), encoding: "utf8" }))[1]);
    return p.until(`document.querySelector(".estimate").textContent.startsWith("The result has " + ${q((dry / 1e6).toPrecision(3))})`, what);
  };
  await gives("q4_k_m", "the size that a preset gives");
  await set(await labelled("Preset"), "IQ3_XXS");
  await p.until(`document.querySelector(".estimate").textContent.includes("needs an importance matrix")`, "a preset that needs an importance matrix");
  await set(await labelled("Importance matrix"), "base.imatrix.gguf");
  await gives("iq3_xxs --imatrix base.imatrix.gguf", "the size that this preset gives");
  await set(await labelled("Preset"), "Q8_0");
  same(await p.eval(`[...document.querySelector("${await labelled("Importance matrix")}").options].map((o) => o.value).join()`), ",base.imatrix.gguf", "only importance matrices");
  await set(await labelled("Importance matrix"), "base.imatrix.gguf");
  const eight = await command();
  same(eight, "organ-assemble verse.gguf --dtype q8_0 --imatrix base.imatrix.gguf --output verse-q8_0.gguf", "a preset with an importance matrix");
  await press("Quantize");
  await p.until(`document.querySelector(".created")?.textContent.includes("bits per weight")`, "size and bits of the result");
  await check("verse-q8_0.gguf", eight, "quantize");
  await set(await labelled("Aim at"), "size");
  await set(await labelled("Size"), "1200K");
  same(await command(), "organ-assemble verse.gguf --size 1200K --imatrix base.imatrix.gguf --output verse-size.gguf", "a size");
  await set(await labelled("Aim at"), "bpw");
  await set(await labelled("Bits per weight"), "3.5");
  same(await command(), "organ-assemble verse.gguf --bpw 3.5 --imatrix base.imatrix.gguf --output verse-bpw.gguf", "bits per weight");
  await press("Preview");
  await shown(".output table", "the plan of types");
  await set(await labelled("Aim at"), "keep");
  await set(await labelled("Write"), "shards");
  await set(await labelled("Named"), "split.gguf");
  same(await command(), "organ-assemble verse.gguf --shards 2 --output split.gguf", "shards");
  await press("Quantize");
  await p.until(`document.querySelector(".created a")?.textContent === "split-00001-of-00002.gguf"`, "the first shard");
  await view("#/quantize?keep=1&model=split-00001-of-00002.gguf", "form.card");
  await set(await labelled("Write"), "");
  await set(await labelled("Named"), "joined.gguf");
  same(await command(), "organ-assemble split-00001-of-00002.gguf --output joined.gguf", "one file again");
  await press("Quantize");
  await p.until(`document.querySelector(".created a")?.textContent === "joined.gguf"`, "a joined model");
  good(readFileSync(join(T, "data", "joined.gguf")).equals(readFileSync(join(T, "data", "verse.gguf"))), "a model that was split and joined");
  for (const f of ["split-00001-of-00002.gguf", "split-00002-of-00002.gguf", "joined.gguf"]) rmSync(join(T, "data", f));
  same(existsSync(join(T, "data", "verse-bpw.gguf")), false, "the plan writes nothing");
  await view("#/purify?model=verse.gguf", "form.card");
  const pure = await command();
  same(pure, "organ-purify verse.gguf --method haar --strength 0.125 --type ffn --output verse-pure.gguf", "purify");
  await press("Purify");
  await shown(".created", "the purified model");
  await check("verse-pure.gguf", pure, "purify");
  await view("#/validate?model=verse.gguf", "form.card");
  await set(await labelled("Text"), "text.txt");
  await set(await labelled("Compare with"), "code.gguf");
  same(await command(), "organ-validate verse.gguf --text text.txt --reference code.gguf", "a validation with a text");
  await set(await labelled("Text"), "");
  await press("Validate");
  await shown(".output table", "the result of an engine");
  same(await text(".output tbody td"), "verse.gguf", "the model that was tried");
  quiet();
}

// Experts and units: what organ-prune removes, chosen by the shares of the experts.
async function prune() {
  const made = ["moe.gguf", "moe.imatrix.gguf"], line = async (want, what) => same(await command(), "organ-prune moe.gguf " + want + " --output moe-pruned.gguf", what);
  for (const f of made) for (const dir of ["data", "here"]) writeFileSync(join(T, dir, f), readFileSync(join(T, f)));
  await view("#/models", "td .kind");
  await view("#/prune?model=moe.gguf", ".experts table");
  same(await text("form p.faint"), "Choose an importance matrix: it tells which are the best.", "no choice without scores");
  good(await p.eval(`document.querySelector("button.primary").disabled`), "nothing is pruned without scores");
  await set(await labelled("Importance matrix"), "moe.imatrix.gguf");
  await p.until(`document.querySelectorAll(".experts th").length === 4`, "the shares of two blocks");
  const rows = execFileSync(BIN + "/organ-measure", ["moe.gguf", "--imatrix", "moe.imatrix.gguf", "--rank", "experts", "--json"], { cwd: T, encoding: "utf8", stdio: ["ignore", "pipe", "ignore"] }).trim().split("\n").map((x) => JSON.parse(x));
  const percent = (v) => (100 * v).toPrecision(3) + " %", share = (e, b) => rows.find((r) => r.expert === e && r.block === b).share;
  for (let e = 0; e < 4; e++) same(await p.eval(`[...document.querySelectorAll(".experts tbody tr")[${e}].cells].map((c) => c.textContent).join()`),
    ["Expert " + e, percent((share(e, 0) + share(e, 1)) / 2), percent(share(e, 0)), percent(share(e, 1))].join(), "the shares of expert " + e);
  await line("--keep-experts 2 --imatrix moe.imatrix.gguf", "half of the experts");
  await set(await labelled("Experts per block"), "1");
  same(await text("form p.faint"), "Each token uses 2 experts: keep at least as many.", "too few experts");
  await set(await labelled("Keep"), "share");
  await line("--share 50% --imatrix moe.imatrix.gguf", "a share");
  await set(await labelled("Keep"), "keep-units");
  await set(await labelled("Importance matrix"), "");
  await p.until(`document.querySelectorAll(".experts th").length === 1`, "no shares any more");
  await set(await labelled("Importance matrix"), "moe.imatrix.gguf");
  await p.until(`document.querySelectorAll(".experts th").length === 4`, "shares again");
  await line("--keep-units 4 --imatrix moe.imatrix.gguf", "another matrix keeps the choice");
  const open = () => p.eval(`[...document.querySelectorAll(".experts input")].filter((x) => x.indeterminate).length`);
  same(await open(), 4, "no expert is chosen by hand");
  for (const e of [0, 3]) await p.eval(`[...document.querySelectorAll(".experts label")].find((l) => l.textContent === "Expert ${e}").click()`);
  same(await open(), 0, "all experts are chosen by hand");
  await line("--experts 1-2", "experts that were chosen");
  const chosen = await command();
  await press("Preview");
  await shown(".output table", "the plan");
  same(existsSync(join(T, "data", "moe-pruned.gguf")), false, "the plan writes nothing");
  await reload(".output table");
  same(await command(), chosen, "a reload keeps the choice");
  same(await p.eval(`[...document.querySelectorAll(".experts input")].map((x) => Number(x.checked)).join()`), "0,1,1,0", "a reload keeps the ticks");
  await press("Prune");
  await shown(".created", "the pruned model");
  await check("moe-pruned.gguf", chosen, "prune");
  // An importance matrix of another model says why there are no shares; a model without experts has units only.
  await set(await labelled("Importance matrix"), "base.imatrix.gguf");
  await p.until(`document.querySelector(".experts .error")?.textContent`, "another model's matrix");
  await view("#/prune?model=base.gguf&imatrix=base.imatrix.gguf", "form.card");
  await p.until(`document.querySelector("main .command code")?.textContent.startsWith("organ-prune base.gguf --keep-units ")`, "the units of a model without experts");
  same(await p.eval(`[...document.querySelector("${await labelled("Keep")}").options].filter((o) => !o.disabled).map((o) => o.value).join()`), "keep-units", "no experts to choose");
  await set(await labelled("Units"), "256");
  const units = await command();
  same(units, "organ-prune base.gguf --keep-units 256 --imatrix base.imatrix.gguf --output base-pruned.gguf", "units");
  await press("Prune");
  await shown(".created", "a model with fewer units");
  await check("base-pruned.gguf", units, "units");
  for (const f of [...made, "moe-pruned.gguf", "base-pruned.gguf"]) rmSync(join(T, "data", f));
  quiet();
}

async function keys() {
  await view("#/keys?model=verse.gguf", "table");
  await p.click('[aria-label="Edit general.name"]');
  await shown(".inline-edit textarea");
  await set(".inline-edit textarea", "It's <b>mine</b>");
  await press("Keep");
  await p.click('[aria-label="Delete general.description"]');
  const line = await command();
  same(line, `organ-keys verse.gguf --set 'general.name=str:It'\\''s <b>mine</b>' --delete general.description --output verse-keys.gguf`, "the edits");
  await press("Apply");
  await shown(".created", "the edited model");
  await check("verse-keys.gguf", line, "keys");
  await p.until(`[...document.querySelectorAll("td")].some((x) => x.textContent === "It's <b>mine</b>")`, "the new value is shown");
  quiet();
  await texts();
}

// What nobody edited stays, byte for byte; line breaks keep their kind.
async function texts() {
  const template = "{% for m in messages %}\n{{ m }}\n{% endfor %}\n", data = (f) => join(T, "data", f);
  const value = (file, key) => execFileSync(BIN + "/organ-keys", [data(file), "--get", key]).toString();
  execFileSync(BIN + "/organ-keys", [data("verse.gguf"), "--set", "tokenizer.chat_template=str:" + template, "--set", "x.windows=str:a\r\nb\r\n",
    "--set", "x.mixed=str:a\r\nb\nc", "--set", "x.long=str:" + "long line\n".repeat(900), "--set", "x.number=f32:0.1", "--output", data("chat.gguf"), "--force", "-q"]);
  await view("#/keys?model=chat.gguf", "table");
  for (const key of ["tokenizer.chat_template", "x.windows", "x.mixed", "x.long", "x.number", "general.name"]) {
    await p.click(`[aria-label="Edit ${key}"]`);
    await shown(".inline-edit");
    if (key === "x.number") await p.key("Enter", 13, "\r");
    else await press("Keep");
    await p.until(`!document.querySelector(".inline-edit")`, "the editor closes");
    same(await command(), "organ-keys chat.gguf", key + " was not edited");
  }
  same(await p.eval(`[...document.querySelectorAll("td.v .text")].some((x) => x.textContent === ${q(template)})`), true, "line breaks are shown as such");
  await p.click('[aria-label="Edit tokenizer.chat_template"]');
  await shown(".inline-edit textarea");
  await p.key("End", 35);
  await p.eval(`(() => { const t = document.querySelector(".inline-edit textarea"); t.setSelectionRange(t.value.length, t.value.length); })()`);
  await p.key("Enter", 13, "\r");
  await p.type("end");
  await press("Keep");
  await p.click('[aria-label="Edit x.windows"]');
  await set(".inline-edit textarea", "a\nB\n");
  await press("Keep");
  await p.click('[aria-label="Edit x.mixed"]');
  await set(".inline-edit textarea", "a\nb\nC");
  await press("Keep");
  good((await text(".inline-edit .error")).includes("several kinds"), "line breaks that a browser cannot keep");
  writeFileSync(join(T, "here", "mixed.txt"), "a\r\nb\nD"); // differs from the text above, so that the wait is for the file
  await p.files(".inline-edit input[type=file]", [join(T, "here", "mixed.txt")]);
  await p.until(`document.querySelector(".inline-edit textarea").value === "a\\nb\\nD" && !document.querySelector(".inline-edit .error").textContent`, "a value from a file");
  await press("Keep");
  await p.click('[aria-label="Edit x.long"]');
  await p.until(`document.querySelector(".inline-edit textarea").value.length === 9000`, "a long text is whole");
  await set(".inline-edit textarea", "short line\n".repeat(1000));
  await press("Keep");
  await press("Apply");
  await shown(".created", "the edited texts");
  same(value("chat-keys.gguf", "tokenizer.chat_template"), template + "\nend", "a template with one more line");
  same(value("chat-keys.gguf", "x.windows"), "a\r\nB\r\n", "the line breaks of Windows");
  same(value("chat-keys.gguf", "x.mixed"), "a\r\nb\nD", "a value of a file, byte for byte");
  same(value("chat-keys.gguf", "x.long"), "short line\n".repeat(1000), "a text of 11,000 bytes");
  same(value("chat-keys.gguf", "x.number") + value("chat-keys.gguf", "general.name"), value("chat.gguf", "x.number") + value("chat.gguf", "general.name"), "all other values");
  // In place, and back. A form that is rejected removes what was done before.
  await view("#/models", "form.upload");
  await view("#/keys?model=chat.gguf", "table");
  const before = readFileSync(data("chat.gguf"));
  await p.click('[aria-label="Edit general.name"]');
  await set(".inline-edit textarea", value("chat.gguf", "general.name").toUpperCase());
  await press("Keep");
  await p.eval(`document.querySelector(".check input").click()`);
  await press("Apply");
  await p.until(`document.querySelector(".created")?.textContent.includes("in place")`, "a change in place");
  same(readFileSync(data("chat.gguf")).equals(before), false, "the file was changed");
  await press("Undo", ".created");
  await p.until(`document.querySelector(".created") && ![...document.querySelectorAll(".created button")].length`, "an undone change");
  same(readFileSync(data("chat.gguf")).equals(before), true, "the file is as it was, byte for byte");
  await p.click('[aria-label="Edit general.name"]');
  await set(".inline-edit textarea", "other");
  await press("Keep");
  await p.eval(`document.querySelector(".check input").click()`);
  await set(await labelled("Write a new model"), "no/name");
  same(await count(".created"), 1, "what was done is shown until the next form is sent");
  const sent = await jobs();
  await press("Apply");
  await p.until(`!document.querySelector(".created")`, "a rejected form removes what was done");
  same(await jobs(), sent, "a rejected form starts nothing");
  same(await p.eval(`document.querySelector(${q(await labelled("Write a new model"))}).validity.patternMismatch`), true, "the browser says which field is wrong");
  for (const f of ["chat.gguf", "chat-keys.gguf"]) rmSync(data(f));
  quiet();
}

// What organ-vocab tells, its comparison, and what it writes.
async function vocabulary() {
  writeFileSync(join(T, "data", "words.txt"), "300\n301\n302\n");
  await view("#/model/verse.gguf", ".info");
  await p.click('.info a[href="#/vocabulary?model=verse.gguf"]');
  await p.until(`document.querySelector("main .command code")?.textContent === "organ-vocab verse.gguf"`, "the link to the vocabulary");
  await press("Go");
  await shown(".words", "the facts");
  const seen = (await text(".words")).replaceAll("\u00a0", " ");
  for (const part of ["1,024 tokens", "llama", "256 byte", "2 control", "0 unused", "0 repeated texts", "Latin 80.9 %", "output.weight: 215 KB, 11.5 % of the model"]) good(seen.includes(part), "the vocabulary has " + part + ": " + seen);
  same(await p.eval(`[...document.querySelectorAll(".words tbody tr")].map((r) => [...r.cells].map((c) => c.textContent).join(" ")).join()`), "bos_token_id 1 <s>,eos_token_id 2 </s>,unknown_token_id 0 <unk>", "the special tokens");
  await set(await labelled("Do"), "compare");
  await set(await labelled("Other model"), "code.gguf");
  same(await command(), "organ-vocab verse.gguf code.gguf", "the command that compares");
  await press("Go");
  await shown(".output table", "the comparison");
  await set(await labelled("Do"), "trim");
  good(await p.eval(`document.querySelector("button.primary").disabled`), "a list of tokens is needed");
  await set(await labelled("List"), "words.txt");
  const trim = await command();
  same(trim, "organ-vocab trim verse.gguf --keep words.txt --output verse-trimmed.gguf", "the command that trims");
  await press("Go");
  await shown(".created", "a smaller vocabulary");
  writeFileSync(join(T, "here", "words.txt"), "300\n301\n302\n");
  await check("verse-trimmed.gguf", trim, "a smaller vocabulary");
  await view("#/vocabulary?model=verse.gguf&do=transplant", "form.card");
  await p.until(`document.querySelector("main .command code")?.textContent.startsWith("organ-vocab transplant")`, "the form of a transplant");
  await set(await labelled("Other model"), "verse-trimmed.gguf");
  same(await command(), "organ-vocab transplant verse.gguf --from verse-trimmed.gguf --method mean --output verse-words.gguf", "the command that transplants");
  await view("#/merge?model=base.gguf", ".map .cell");
  await set(await labelled("Method"), "linear");
  await set(await labelled("Vocabulary"), "model");
  await set(await labelled("Whose vocabulary"), "verse-trimmed.gguf");
  good((await command()).includes("--vocabulary verse-trimmed.gguf"), "a merge with the vocabulary of a model: " + await command());
  await press("Preview");
  await shown(".output table", "the preview of a merge with another vocabulary");
  await set(await labelled("Vocabulary"), "union");
  good((await command()).includes("--vocabulary union"), "a merge with the tokens of all");
  await press("Preview");
  await p.until(`document.querySelector(".panel .badge.done") && document.querySelector(".output table")`, "the preview of a merge with all tokens");
  for (const f of ["words.txt", "verse-trimmed.gguf"]) rmSync(join(T, "data", f));
  await view("#/models", "td .kind");
  quiet();
}

async function study() {
  await view("#/compare?a=verse.gguf&b=code.gguf", "form");
  await press("Compare");
  await shown(".map .v9", "a map of differences");
  same(await text(".verdict .big"), "same lineage", "the verdict");
  same(await text(".panel .badge.no"), "they differ", "exit 1 of a tool that looks");
  await view("#/compare?a=base.gguf&b=verse.gguf&c=code.gguf", "form");
  same(await command(), ["verse", "code"].map((x) => `organ-compare base.gguf ${x}.gguf --lineage\norgan-compare base.gguf ${x}.gguf`).join("\n"), "the commands for three models");
  await press("Compare");
  await p.until(`document.querySelectorAll(".pair .map .v9").length > 1 && document.querySelectorAll(".pair .map").length === 2`, "two maps side by side");
  same(await count(".verdict"), 2, "two verdicts");
  good((await text("thead")).includes("relative L2 of C"), "a column for the third model");
  good(await p.eval(`(() => { const m = [...document.querySelectorAll(".pair > div")].map((e) => e.getBoundingClientRect()); return m[0].top === m[1].top; })()`), "the maps stand side by side");
  await reload(".pair .map .v9");
  same(await count(".verdict"), 2, "a reload keeps the comparison");
  await view("#/measure?model=code.gguf", "form");
  await set(await labelled("Values per tensor"), "1000");
  await press("Measure");
  await shown(".map .v0", "a map of measures");
  for (const f of ["moe.gguf", "moe.imatrix.gguf"]) writeFileSync(join(T, "data", f), readFileSync(join(T, f)));
  await view("#/measure?model=moe.gguf&imatrix=moe.imatrix.gguf", "form");
  await press("Experts");
  await shown(".experts .map .v9", "a map of experts");
  same(await count(".experts .map .cell"), 8, "a cell per expert");
  same(await p.eval(`[...document.querySelectorAll(".experts .map .v9")].map((e) => e.ariaLabel.split(" · ")[0]).join()`), "expert 2 of block 1", "the expert that is used most");
  same(await command(), "organ-measure moe.gguf --imatrix moe.imatrix.gguf --rank experts", "the command for experts");
  for (const f of ["moe.gguf", "moe.imatrix.gguf"]) rmSync(join(T, "data", f));
  await view("#/measure?model=code.gguf", "form");
  await press("Write a report");
  await shown(".created button", "the report");
  rmSync(join(downloads, "code.report.html"), { force: true });
  await press("Download as HTML");
  good(await arrives(join(downloads, "code.report.html"), readFileSync(join(T, "data", "code.report", "Z_MEASURE_REPORT.html"))), "the report is downloaded");
  await press("Measure all models");
  await shown(".fleet .created", "the report on all models");
  same(await count(".fleet tbody tr"), (await p.eval("import('./web/store.js').then((m) => m.names('language model').length)")), "one row per model");
  same(existsSync(join(T, "data", "fleet.report", "Z_MEASURE_REPORT.md")), true, "a report of a fleet");
  quiet();
}

// The card of a model has the verdict of organ-info, for sound, damaged, incomplete and unknown files.
async function verdicts() {
  const data = join(T, "data"), made = [], keys = (from, to, ...change) => {
    execFileSync(join(BIN, "organ-keys"), ["-q", join(data, from), ...change, "-o", join(data, to)], { stdio: "ignore" });
    made.push(to);
  };
  keys("base.gguf", "v-unknown.gguf", "--set", "general.architecture=str:mystery");
  keys("base.gguf", "v-wrong.gguf", "--set", "llama.embedding_length=u32:128");
  keys("base.gguf", "v-image.gguf", "--set", "general.architecture=str:flux");
  keys("lora.gguf", "v-lora.gguf", "--delete", "adapter.type");
  writeFileSync(join(data, "v-header.gguf"), readFileSync(join(data, "base.gguf")).subarray(0, 26000));
  made.push("v-header.gguf");
  await view("#/models", "td .kind");
  const seen = new Set();
  for (const name of ["base.gguf", "lora.gguf", "base.imatrix.gguf", ...made]) {
    const line = execFileSync(join(BIN, "organ-info"), ["--json", "-q", join(data, name)], { stdio: ["ignore", "pipe", "ignore"] });
    const info = JSON.parse(line.toString().split("\n")[0]);
    await view("#/model/" + name, ".info");
    await p.until(`document.querySelector("main h1")?.textContent === ${q(name)}`, name);
    const card = `[...document.querySelectorAll(".info dt")].find((x) => x.textContent === "Check")?.nextElementSibling`;
    same(await p.eval(card + "?.textContent ?? null"), info.verdict, "the verdict of " + name);
    const colour = info.errors ? "error" : info.verdict === "no findings" ? "good" : "warn";
    same(await p.eval(card + "?.firstElementChild.className ?? null"), colour, "the colour of the verdict of " + name);
    seen.add(colour);
  }
  same([...seen].sort().join(), "error,good,warn", "verdicts of all colours");
  for (const name of made) rmSync(join(data, name));
  await view("#/models", "td .kind");
  quiet(/broken|spare/);
}

async function watching() {
  rmSync(join(T, "data", "enough"), { force: true });
  await view("#/model/verse.gguf", ".map");
  await press("Check");
  await p.until(`document.querySelector(".panel progress")?.value === 25`, "live progress");
  await p.until(`document.querySelector(".panel .messages")?.textContent === "organ-check: a <b>message</b>"`, "messages while it runs");
  await p.eval(`[...document.querySelectorAll(".panel button")].find((b) => b.textContent === "Stop").focus()`);
  await new Promise((r) => setTimeout(r, 2500));
  same(await p.eval("document.activeElement.textContent"), "Stop", "the focus stays while the job is watched");
  await p.key("Enter", 13, "\r");
  await p.until(`document.querySelector(".panel").dataset.state === "stopped"`, "a stopped job");
  await press("Check");
  await p.until(`document.querySelector(".panel").dataset.state === "running"`, "a running job");
  writeFileSync(join(T, "data", "enough"), "");
  await p.until(`document.querySelector(".panel").dataset.state === "done"`, "the end is noticed");
  await p.until(`document.querySelector(".output table")`, "findings");
  await view("#/jobs", ".job");
  await p.click(".job .jobhead");
  await shown(".job .details code");
  same(await p.eval(`document.querySelector(".job .details code").textContent`), "organ-check verse.gguf", "a job's command line");
  quiet();
}

async function hostile() {
  const pages = { "#/model/evil.gguf": ".map", "#/keys?model=evil.gguf": "table", "#/graft?base=evil.gguf&donor=evil.gguf": ".map", "#/merge?model=evil.gguf": ".map", "#/jobs": ".job" };
  for (const [hash, selector] of Object.entries(pages)) {
    await view(hash, selector);
    same(await count("main img, main script, main svg:not(.small), main b:not(.fact b), main i:not(.dot):not(.ramp i):not(.mix i), body > script"), 0, "markup in " + hash);
  }
  await view("#/model/evil.gguf", "table");
  const all = await p.eval("document.body.innerText");
  good(all.includes("<img src=x onerror=alert(1)>") && all.includes("<script>alert(2)</script>") && all.includes("<b>x"), "hostile names are shown as text");
  good(all.includes("x\\u{202e}.weight") && !all.includes("\u202e"), "a name does not reverse the line");
  await view("#/graft?base=evil.gguf&donor=evil.gguf", ".map .cell");
  await press("None");
  await p.eval(`document.querySelector('.outside [aria-label^="a,b"]').click()`);
  good(await p.eval(`document.querySelector("button.primary").disabled`), "a name that no option can hold is refused");
  await view("#/keys?model=evil.gguf", "table");
  await p.click('[aria-label^="Edit k"]');
  await set(".inline-edit textarea", "$(touch hacked)'`touch hacked`");
  await press("Keep");
  const line = await command();
  await press("Apply");
  await shown(".created", "hostile keys");
  writeFileSync(join(T, "here", "evil.gguf"), readFileSync(join(T, "data", "evil.gguf")));
  await check("evil-keys.gguf", line, "hostile keys");
  await view("#/graft?base=odd.gguf&donor=odd.gguf", ".chooser");
  good((await text(".outside")).includes("too many tensors"), "a map of too many cells is not drawn");
  await p.click('.chip[data-class="other"]');
  await set(".chooser input", "7-9");
  good((await command()).includes("--layers 7-9 "), "blocks can be chosen without a map");
  for (const name of ["%3Cimg%20src=x%20onerror=alert(1)%3E", "..%2F..%2Fetc", "%00", "%ff"]) {
    await view("#/model/" + name, ".error");
    quiet(/40[0-9]/);
  }
  quiet();
}

// Elements that leave the window, and pairs of texts or controls that overlap.
const layout = `(() => {
  const out = [], width = innerWidth;
  if (document.scrollingElement.scrollWidth > width) out.push("the page is " + document.scrollingElement.scrollWidth + " wide");
  const inside = (e) => e.closest(".scroll, nav, .messages");
  const leaves = [...document.querySelectorAll("body *")].filter((e) => {
    const s = getComputedStyle(e), r = e.getBoundingClientRect();
    if (!r.width || !r.height || s.visibility === "hidden" || e.closest("#top, option, .skip, #notes")) return false;
    if (!inside(e) && (r.right > width + 0.5 || r.left < -0.5)) out.push(e.tagName + "." + e.className + " leaves the window: " + r.left + " to " + r.right);
    return /^(BUTTON|INPUT|SELECT|PROGRESS|TD|TH)$/.test(e.tagName) || [...e.childNodes].some((n) => n.nodeType === 3 && n.data.trim());
  }).slice(0, 700);
  const boxes = leaves.map((e) => e.getBoundingClientRect());
  for (let i = 0; i < leaves.length; i++) for (let j = i + 1; j < leaves.length; j++) {
    const a = boxes[i], b = boxes[j];
    if (a.right - b.left < 1.5 || b.right - a.left < 1.5 || a.bottom - b.top < 1.5 || b.bottom - a.top < 1.5) continue;
    if (leaves[i].contains(leaves[j]) || leaves[j].contains(leaves[i])) continue;
    const one = leaves[i].closest(".scroll"), two = leaves[j].closest(".scroll");
    if (one !== two) continue; // a table is cut off where its frame ends
    out.push(leaves[i].tagName + " '" + leaves[i].textContent.slice(0, 30) + "' overlaps " + leaves[j].tagName + " '" + leaves[j].textContent.slice(0, 30) + "'");
  }
  return [...new Set(out)].slice(0, 5).join(" | ");
})()`;

// Links and controls that one would have to scroll sideways for: none but the cells of a map and of a table.
const outOfReach = `[...document.querySelectorAll("nav a, main a.button, main button, main select, main input, main textarea")].filter((e) => {
  const r = e.getBoundingClientRect();
  return r.width && !e.closest(".map, .outside, .scroll:not(.acts)") && (r.left < 0 || r.right > innerWidth);
}).map((e) => e.tagName + " " + (e.textContent || e.ariaLabel || e.id)).slice(0, 5).join(" | ")`;
// Classes have one name, that of people, in tables, legends and chips.
const otherNames = `[...document.querySelectorAll("td, th, .legend span, .chip, option")].map((e) => e.textContent.trim()).filter((t) => /^(skeleton|organ|embed|ffn|Attention)$/.test(t)).join(" ")`;

async function windows() {
  const pages = { models: ["#/models", "form"], model: ["#/model/verse.gguf", ".map"], evil: ["#/model/evil.gguf", ".map"], wide: ["#/graft?base=wide.gguf&donor=wide.gguf", ".map"], measure: ["#/measure?model=verse.gguf", "form", "Measure", ".map"],
    compare: ["#/compare?a=verse.gguf&b=code.gguf", "form", "Compare", ".map"], graft: ["#/graft?base=verse.gguf&donor=code.gguf", ".map", "Preview", ".output table"],
    three: ["#/compare?a=base.gguf&b=verse.gguf&c=code.gguf", "form", "Compare", ".pair .map"], stranger: ["#/graft?base=verse.gguf&donor=stranger.gguf", ".map", "Graft", ".warning"],
    merge: ["#/merge?model=base.gguf", ".map", "Preview", ".output table"], merged: ["#/merge?model=base.gguf", ".map", "Merge", ".changes .pair"], quantize: ["#/quantize?model=verse.gguf", "form.card", "Quantize", ".created"], lora: ["#/model/lora.gguf", ".map"],
    prune: ["#/prune?model=moe.gguf&imatrix=moe.imatrix.gguf", ".experts table"], purify: ["#/purify?model=verse.gguf", "form.card", "Preview", ".output table"], refused: ["#/adapter?base=verse.gguf&tuned=verse.gguf", "form.card", "Write", ".badge.refused"],
    rename: ["#/model/verse.gguf", '[aria-label="Rename verse.gguf"]', "Rename", ".confirm"], delete: ["#/model/code.gguf", '[aria-label="Delete code.gguf"]', "Delete", ".confirm"], stack: ["#/stack?model=verse.gguf", "form.card", "Preview", ".output table"], adapter: ["#/adapter?base=verse.gguf&tuned=code.gguf", "form.card"],
    vocabulary: ["#/vocabulary?model=verse.gguf", "form.card", "Go", ".words"], validate: ["#/validate?model=verse.gguf", "form.card"], keys: ["#/keys?model=evil.gguf", "table"], jobs: ["#/jobs", ".job"] };
  for (const f of ["moe.gguf", "moe.imatrix.gguf"]) writeFileSync(join(T, "data", f), readFileSync(join(T, f)));
  for (const [name, [hash, selector, button, after]] of Object.entries(pages)) {
    await view(hash, selector);
    if (button) { if (selector.startsWith("[aria")) await p.click(selector); else await press(button); await shown(after, name); }
    same(await p.eval(otherNames), "", name + ": names of classes");
    for (const [width, scheme] of [[400, "light"], [800, "dark"], [1600, "light"], [400, "dark"], ...(PICTURES ? [[800, "light"]] : []), [1600, "dark"]]) {
      await p.size(width, 900);
      await p.scheme(scheme);
      await p.eval("new Promise((r) => requestAnimationFrame(() => requestAnimationFrame(r)))");
      same(await p.eval(layout), "", name + " at " + width + ", " + scheme);
      same(await p.eval(outOfReach), "", name + " at " + width + ", " + scheme + ": what cannot be reached");
      if (PICTURES) await p.picture(join(PICTURES, name + "-" + width + "-" + scheme + ".png"));
    }
  }
  await p.size(1280, 900);
  same(await p.eval(`new Set([...document.querySelectorAll("#top .brand, nav, .tools")].map((e) => Math.round(e.getBoundingClientRect().top / 30))).size`), 1, "the names of all pages fit in one line");
  await p.size(1100, 900);
  same(await p.eval("getComputedStyle(document.body).backgroundColor"), "rgb(15, 21, 28)", "dark, as the system");
  await p.click("#theme");
  same(await p.eval("getComputedStyle(document.body).backgroundColor"), "rgb(247, 248, 250)", "light, by the button");
  quiet();
}

async function leave() {
  await press("Log out", "header");
  await shown(".login input", "logged out");
  same(await p.eval("sessionStorage.getItem('organ-token')"), null, "the token is forgotten");
  await p.eval("location.hash = '#/jobs'");
  await shown(".login input", "no page without a token");
  same(await count(".job"), 0, "no jobs without a token");
  quiet();
}

if (PICTURES) mkdirSync(PICTURES, { recursive: true });
const only = process.env.STEPS?.split(" "); // for work on one step
const steps = (SERVER === "lighttpd" ? [login, policy, uploads, walk, kinds, verdicts, graft, strangers, merge, build, prune, keys, vocabulary, study, files, watching, hostile, windows, leave] : [login, watching, leave]).filter((s) => !only || s === login || only.includes(s.name));
try {
  for (const step of steps) {
    await step();
    if (process.env.VERBOSE) console.log(step.name, passed, failed);
  }
} catch (e) {
  failed++;
  console.log("FAIL page.mjs (" + SERVER + "): " + e.stack + "\n" + p.problems.join("\n"));
  if (PICTURES) await p.picture(join(PICTURES, "failed.png"));
}
await browser.close();
console.log("page.mjs (" + SERVER + "): " + passed + " passed, " + failed + " failed");
process.exit(failed ? 1 : 0);
