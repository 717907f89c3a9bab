// cdp.mjs - drives headless Chromium over its DevTools protocol: one pipe to it, one from it, and
// messages of JSON that end with NUL. Needs no packages.
import { spawn } from "node:child_process";
import { writeFileSync } from "node:fs";

export class Browser {
  constructor(program, profile) {
    this.program = spawn(program, ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--disable-background-networking",
      "--disable-component-update", "--disable-sync", "--hide-scrollbars", "--user-data-dir=" + profile, "--remote-debugging-pipe", "about:blank"],
    { stdio: ["ignore", "ignore", "pipe", "pipe", "pipe"] });
    this.errors = "";
    this.program.stderr.on("data", (d) => { this.errors = (this.errors + d).slice(-4000); });
    this.sent = 0;
    this.waiting = new Map();
    this.listeners = [];
    let rest = "";
    this.program.stdio[4].setEncoding("utf8");
    this.program.stdio[4].on("data", (d) => {
      const parts = (rest + d).split("\0");
      rest = parts.pop();
      for (const p of parts) this.receive(JSON.parse(p));
    });
    this.program.on("exit", () => {
      for (const { reject } of this.waiting.values()) reject(new Error("chromium ended: " + this.errors));
      this.waiting.clear();
    });
  }
  receive(m) {
    if (m.id) {
      const w = this.waiting.get(m.id);
      this.waiting.delete(m.id);
      if (m.error) w.reject(new Error(w.method + ": " + m.error.message));
      else w.resolve(m.result);
    } else for (const f of this.listeners) f(m);
  }
  send(method, params = {}, sessionId = undefined) {
    const id = ++this.sent;
    this.program.stdio[3].write(JSON.stringify({ id, method, params, sessionId }) + "\0");
    return new Promise((resolve, reject) => this.waiting.set(id, { resolve, reject, method }));
  }
  async close() {
    await this.send("Browser.close").catch(() => {});
    await new Promise((r) => (this.program.exitCode === null ? this.program.on("exit", r) : r()));
  }
}

export class Page {
  static async open(browser, downloads) {
    const p = new Page();
    p.browser = browser;
    p.problems = []; // exceptions, console errors, refused by the policy
    const { targetId } = await browser.send("Target.createTarget", { url: "about:blank" });
    p.session = (await browser.send("Target.attachToTarget", { targetId, flatten: true })).sessionId;
    browser.listeners.push((m) => {
      if (m.sessionId !== p.session) return;
      if (m.method === "Runtime.exceptionThrown") p.problems.push("exception: " + (m.params.exceptionDetails.exception?.description || m.params.exceptionDetails.text));
      if (m.method === "Log.entryAdded" && m.params.entry.level === "error") p.problems.push(m.params.entry.text + " " + (m.params.entry.url || ""));
      if (m.method === "Page.javascriptDialogOpening") p.problems.push("a dialog: " + m.params.message);
    });
    for (const d of ["Page", "Runtime", "Log", "DOM"]) await p.send(d + ".enable");
    if (downloads) await browser.send("Browser.setDownloadBehavior", { behavior: "allow", downloadPath: downloads, eventsEnabled: false });
    return p;
  }
  send(method, params) { return this.browser.send(method, params, this.session); }
  async goto(url) {
    await this.send("Page.navigate", { url });
    await this.until("document.readyState === 'complete'", "the page loads");
  }
  // Waits for the new document: the old one is complete until it is left.
  async reload() {
    await this.eval("window.old = true");
    await this.send("Page.reload");
    await this.until("!window.old && document.readyState === 'complete'", "the page loads again");
  }
  // The value of an expression, which may be a promise.
  async eval(expression) {
    const r = await this.send("Runtime.evaluate", { expression, awaitPromise: true, returnByValue: true });
    if (r.exceptionDetails) throw new Error((r.exceptionDetails.exception?.description || r.exceptionDetails.text) + "\nin " + expression);
    return r.result.value;
  }
  async until(expression, what, ms = 180000) {
    const end = Date.now() + ms;
    for (;;) {
      if (await this.eval("!!(" + expression + ")").catch(() => false)) return;
      if (Date.now() > end) throw new Error("timeout: " + (what || expression) + "\n" + (await this.eval("document.body.innerText").catch(() => "")).slice(0, 1500));
      await new Promise((r) => setTimeout(r, 50));
    }
  }
  async size(width, height, scale = 1) {
    await this.send("Emulation.setDeviceMetricsOverride", { width, height, deviceScaleFactor: scale, mobile: false });
  }
  async scheme(value) {
    await this.send("Emulation.setEmulatedMedia", { features: [{ name: "prefers-color-scheme", value }] });
  }
  async key(name, code = 0, text = undefined) {
    await this.send("Input.dispatchKeyEvent", { type: "keyDown", key: name, code: name, windowsVirtualKeyCode: code, text });
    await this.send("Input.dispatchKeyEvent", { type: "keyUp", key: name, code: name, windowsVirtualKeyCode: code });
  }
  async type(text) { await this.send("Input.insertText", { text }); }
  // A real press of the mouse in the middle of an element, once it stays where it is: what arrives late
  // (a picture, a table) moves the rest of a page. A press that something else received is repeated.
  async click(selector) {
    const place = () => this.eval(`(() => { const e = document.querySelector(${JSON.stringify(selector)}); if (!e) return null; e.scrollIntoView({ block: "center" });
      const r = e.getBoundingClientRect(); return { x: r.x + r.width / 2, y: r.y + r.height / 2 }; })()`);
    await this.until(`document.querySelector(${JSON.stringify(selector)})`, "an element " + selector);
    for (let presses = 0; presses < 10; presses++) {
      let at = await place();
      for (let still = 0, tries = 0; still < 3 && tries < 100; tries++) {
        await new Promise((r) => setTimeout(r, 20));
        const now = await place();
        still = JSON.stringify(now) === JSON.stringify(at) ? still + 1 : 0;
        at = now;
      }
      if (!at) throw new Error("no element " + selector);
      await this.eval(`window.pressed = false; document.querySelector(${JSON.stringify(selector)}).addEventListener("click", () => { window.pressed = true; }, { capture: true, once: true })`);
      for (const type of ["mousePressed", "mouseReleased"])
        await this.send("Input.dispatchMouseEvent", { type, ...at, button: "left", clickCount: 1 });
      if (await this.eval("window.pressed ?? true")) return; // a page that was left has no such variable
    }
    throw new Error("another element receives the presses of " + selector);
  }
  async files(selector, paths) {
    const { root } = await this.send("DOM.getDocument");
    const { nodeId } = await this.send("DOM.querySelector", { nodeId: root.nodeId, selector });
    await this.send("DOM.setFileInputFiles", { nodeId, files: paths });
  }
  async picture(file, whole = true) {
    const { cssContentSize: c } = await this.send("Page.getLayoutMetrics");
    const clip = whole ? { x: 0, y: 0, width: c.width, height: Math.min(c.height, 4000), scale: 1 } : undefined;
    const { data } = await this.send("Page.captureScreenshot", { format: "png", captureBeyondViewport: whole, clip });
    writeFileSync(file, Buffer.from(data, "base64"));
  }
}
