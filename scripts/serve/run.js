// run.js - starts a job and shows how it goes: state, progress, messages, and a way to stop it.
import * as api from "./api.js";
import * as kept from "./kept.js";
import { h, fill, bytes, className, seconds, number, note, table, lines, command, commandText, time } from "./dom.js";

const stateText = { queued: "waiting", running: "running", done: "done", failed: "failed", stopped: "stopped", lost: "lost" };

// Exit 1 is an answer of tools that look, and a refusal of those that write.
const answers = { "organ-compare": "they differ", "organ-check": "findings", "organ-validate": "not valid", "organ-info": "does not fit" };
const saidNo = (j) => j.state === "done" && j.exit === 1;
export function badge(j) {
  if (!saidNo(j)) return h("span", { class: "badge " + j.state }, stateText[j.state]);
  return h("span", { class: "badge " + (answers[j.tool] ? "no" : "refused") }, answers[j.tool] || "refused");
}

export function progress(j) {
  const p = j.progress, parts = [seconds(p.seconds)];
  if (p.total_bytes && api.active(j)) parts.push(bytes(p.done_bytes) + " of " + bytes(p.total_bytes));
  const bar = h("progress", { max: 100, "aria-label": "progress" });
  if (p.percent !== undefined) bar.value = p.percent;
  return h("div", { class: "progress" }, api.active(j) ? bar : null, h("span", { class: "faint" }, parts.join(" · ")));
}

export const lineOf = (j) => commandText([j.tool, ...j.arguments.filter((a) => a !== "--json" && a !== "--")]);

function messages(j) {
  const text = (j.stderr || "").trimEnd();
  const why = saidNo(j) && !answers[j.tool] ? " refused" : j.state === "failed" ? " failed" : "";
  if (!text) return why === " refused" ? h("p", { class: "messages refused", role: "alert" }, "The tool refused this and gave no reason.") : null;
  return lines("pre", text, { class: "messages" + why, role: why ? "alert" : null, tabindex: "0", "aria-label": "messages" });
}

// Fills `box`; returns the job once it has ended. A job that only reads for the view is not kept.
export async function run(box, tool, args, { signal, reading } = {}) {
  const line = commandText([tool, ...args]), before = reading ? undefined : kept.jobOf(line);
  if (before === null) return null;
  let j;
  try {
    j = before ? await api.job(before, signal) : await api.start(tool, args);
    if (!reading) kept.started(line, j.id);
  } catch (e) {
    box.removeAttribute("data-state");
    if (e.name !== "AbortError") fill(box, h("p", { class: "error", role: "alert" }, e.message));
    return null;
  }
  return watch(box, j, { signal });
}

export async function watch(box, j, { signal } = {}) {
  box.setAttribute("data-job", j.id);
  const state = h("span", { role: "status" }), bar = h("span"), log = h("div");
  const stop = h("button", { type: "button", class: "quiet", onclick: () => api.stop(j.id).catch((e) => note(e.message, "bad")) }, "Stop");
  const show = (now) => {
    box.setAttribute("data-state", now.state);
    if (state.dataset.state !== now.state) fill(state, badge(now));
    state.dataset.state = now.state;
    fill(bar, progress(now));
    fill(log, messages(now));
    stop.hidden = !api.active(now);
  };
  fill(box, h("div", { class: "jobline" }, state, bar, stop, h("a", { class: "quiet", href: "#/jobs/" + j.id }, "Job")), log);
  try {
    return await api.follow(j, show, signal);
  } catch (e) {
    if (e.name !== "AbortError") fill(box, h("p", { class: "error", role: "alert" }, e.message));
    return null;
  }
}

export const ended = (j) => j && j.state === "done";
export const succeeded = (j) => ended(j) && j.exit === 0;

// Columns of any table that a tool prints.
export function resultTable(rows) {
  const keys = [...new Set(rows.slice(0, 50).flatMap((r) => Object.keys(r)))];
  const cell = (v, row, key) => key === "class" ? className(v) : (Array.isArray(v) ? v.slice(0, 8).join(", ") + (v.length > 8 ? ", …" : "") : number(v));
  return table(rows, keys.map((k) => [k, k.replaceAll("_", " "), (v, row) => cell(v, row, k)]), 100);
}

// ---- the list of jobs ----

export async function jobsView(main, signal, id) {
  const list = h("div", { class: "jobs" });
  fill(main, h("h1", null, "Jobs"), h("p", { class: "lead" }, "The latest 50 jobs. They continue if you close this page."), list);
  let drawn = "";
  const open = new Map(); // id -> element of details
  async function details(j) {
    const box = h("div", { class: "details" });
    const now = await api.job(j.id, signal);
    fill(box, command(lineOf(now)), messages(now));
    if (!api.active(now)) {
      const rows = await api.rows(j.id).catch(() => []);
      if (rows.length) box.append(resultTable(rows));
      box.append(h("div", { class: "actions" },
        h("button", { type: "button", onclick: () => api.download("/v1/jobs/" + j.id + "/result", j.id + ".jsonl").catch((e) => note(e.message, "bad")) }, "Download the result"),
        h("button", { type: "button", class: "quiet", onclick: async () => { await api.remove(j.id).catch((e) => note(e.message, "bad")); open.delete(j.id); show(); } }, "Remove")));
    }
    return box;
  }
  async function show() {
    const jobs = (await api.jobs(50)).reverse();
    const now = JSON.stringify([jobs, [...open.keys()]]), focus = document.activeElement, job = focus && focus.closest(".job");
    if (now === drawn) return jobs;
    drawn = now;
    fill(list, jobs.length ? null : h("p", { class: "empty" }, "No jobs yet."), jobs.map((j) => {
      const button = h("button", { type: "button", class: "jobhead", "aria-expanded": String(open.has(j.id)), onclick: async () => {
        if (open.has(j.id)) open.delete(j.id);
        else open.set(j.id, await details(j));
        show();
      } }, h("span", { class: "tool" }, j.tool), h("span", { class: "line name" }, lineOf(j).slice(j.tool.length + 1)));
      return h("article", { class: "job", "data-job": j.id, "data-state": j.state }, h("div", { class: "jobtop" }, button,
        h("div", { class: "jobline" }, badge(j), progress(j), h("span", { class: "faint" }, time(j.created)),
          api.active(j) ? h("button", { type: "button", class: "quiet", onclick: () => api.stop(j.id).then(show, (e) => note(e.message, "bad")) }, "Stop") : null)),
        open.get(j.id));
    }));
    // The elements are new, but the focus stays where it was.
    if (job && !focus.isConnected) {
      const again = list.querySelector('[data-job="' + job.dataset.job + '"]');
      const button = again && [...again.querySelectorAll("button")].find((b) => b.className === focus.className && b.textContent === focus.textContent);
      if (button) button.focus({ preventScroll: true });
    }
    return jobs;
  }
  if (id) open.set(id, await details({ id }).catch(() => h("p", { class: "error" }, "This job was removed.")));
  for (;;) {
    const busy = (await show()).some(api.active);
    await new Promise((r) => setTimeout(r, busy ? 1000 : 5000));
    if (signal.aborted) return;
  }
}
