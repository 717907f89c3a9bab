// api.js - talks to organ-api. The token is kept in sessionStorage, which ends with the tab,
// and is sent in a header to this server only.

const KEY = "organ-token", BASE = "organ-base";
let token = sessionStorage.getItem(KEY) || "";
let base = sessionStorage.getItem(BASE) || "."; // relative to the page
let loggedOut = () => {};

export const onLogout = (f) => { loggedOut = f; };
export const hasToken = () => token !== "";
export const url = (path) => base + path;
export const curlUrl = (path) => new URL(url(path), document.baseURI).href;

export function logout(why) {
  token = "";
  sessionStorage.removeItem(KEY);
  loggedOut(why);
}

async function errorOf(response) {
  try {
    return (await response.json()).error.message;
  } catch {
    return "The server answered " + response.status + ".";
  }
}

async function request(method, path, body, signal) {
  const response = await fetch(url(path), {
    method, signal, body, cache: "no-store", credentials: "omit", redirect: "error", referrerPolicy: "no-referrer",
    headers: { Authorization: "Bearer " + token },
  });
  if (response.status === 401) {
    logout("This token is not valid any more. Log in again.");
    throw new Error("not logged in");
  }
  if (!response.ok) throw new Error(await errorOf(response));
  return response;
}

// Returns the health of the server. lighttpd serves the API at /v1, busybox httpd below /cgi-bin.
export async function login(given) {
  for (const candidate of [".", "./cgi-bin/organ-api"]) {
    const response = await fetch(candidate + "/v1/health", {
      headers: { Authorization: "Bearer " + given }, cache: "no-store", credentials: "omit" });
    if (!(response.headers.get("Content-Type") || "").startsWith("application/json")) continue;
    if (response.status === 404) continue;
    if (response.status === 401) throw new Error("This token is wrong.");
    if (!response.ok) throw new Error(await errorOf(response));
    token = given;
    base = candidate;
    sessionStorage.setItem(KEY, token);
    sessionStorage.setItem(BASE, base);
    return response.json();
  }
  throw new Error("This address does not answer as organ-api.");
}

export const health = async () => (await request("GET", "/v1/health")).json();
const part = encodeURIComponent;

// ---- models ----

export async function list() {
  const [m, o, t] = await Promise.all(["models", "organs", "texts"].map(async (x) => (await request("GET", "/v1/" + x)).json()));
  return { models: m.models, organs: o.organs, texts: t.texts };
}

export const anatomy = async (name, signal) => (await request("GET", "/v1/models/" + part(name), undefined, signal)).json();

export const info = async (name) => (await request("GET", "/v1/info/" + part(name))).json();

// Where a model, a text or an organ directory is renamed and deleted.
export const pathOf = (name) => "/v1/" + (/\.(gguf|safetensors)$/.test(name) ? "models/" : name.endsWith(".txt") ? "texts/" : "organs/") + part(name);
export const rename = (name, to) => request("POST", pathOf(name) + "?rename=" + part(to), "");
export const erase = (name) => request("DELETE", pathOf(name));

// fetch tells nothing about the progress of an upload; XMLHttpRequest does.
export function upload(name, file, replace, progress) {
  return new Promise((resolve, reject) => {
    const x = new XMLHttpRequest();
    x.open("POST", url(pathOf(name) + (replace ? "?force=1" : "")));
    x.setRequestHeader("Authorization", "Bearer " + token);
    x.upload.onprogress = (e) => progress(e.loaded, e.total);
    x.onerror = () => reject(new Error("The connection was lost."));
    x.onload = () => {
      if (x.status === 201) return resolve();
      let why = "The server answered " + x.status + ".";
      try { why = JSON.parse(x.responseText).error.message; } catch { /* not from organ-api */ }
      if (x.status === 401) logout(why);
      reject(new Error(why));
    };
    x.send(file);
  });
}

// A browser cannot send a header with a link. So the file is fetched and offered as a blob, or,
// if it is large and the browser can do it, written to a file that the user chooses.
export async function download(path, name, progress) {
  let to = null;
  const head = await request("HEAD", path);
  const size = Number(head.headers.get("Content-Length") || 0);
  if (size > 5e8 && window.showSaveFilePicker)
    to = await (await showSaveFilePicker({ suggestedName: name })).createWritable();
  const response = await request("GET", path);
  const reader = response.body.getReader(), chunks = [];
  let done = 0;
  for (;;) {
    const { value, done: end } = await reader.read();
    if (end) break;
    done += value.length;
    if (to) await to.write(value);
    else chunks.push(value);
    if (progress) progress(done, size);
  }
  if (to) return to.close();
  if (done !== size) throw new Error("The download ended early.");
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob(chunks, { type: "application/octet-stream" }));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60000);
}

// ---- jobs ----

export const jobs = async (last) => (await (await request("GET", "/v1/jobs?last=" + last)).json()).jobs;
export const job = async (id, signal) => (await request("GET", "/v1/jobs/" + id, undefined, signal)).json();
export const start = async (tool, args) =>
  (await request("POST", "/v1/jobs", JSON.stringify({ tool, arguments: args }))).json();
export const stop = async (id) => (await request("DELETE", "/v1/jobs/" + id)).json();
export const remove = (id) => request("DELETE", "/v1/jobs/" + id + "?remove=1");

export const active = (j) => j.state === "queued" || j.state === "running";

const pause = (ms) => new Promise((r) => setTimeout(r, ms));

// Calls show(job) at each change, and every two seconds while the tool works. Jobs outlive the
// server, so a lost connection is tried again for a minute.
export async function follow(j, show, signal) {
  show(j);
  for (let lost = 0; active(j);) {
    const wait = j.state === "queued" ? 20 : 2, percent = j.progress.percent === undefined ? "" : "&percent=" + j.progress.percent;
    try {
      j = await (await request("GET", "/v1/jobs/" + j.id + "?wait=" + wait + "&since=" + j.state + percent, undefined, signal)).json();
      lost = 0;
    } catch (e) {
      if (!(e instanceof TypeError) || ++lost > 30) throw e;
      await pause(2000);
    }
    show(j);
  }
  return j;
}

// Whole numbers that JavaScript cannot hold stay text, where the browser gives access to it.
const exact = (key, v, context) => (Number.isInteger(v) && !Number.isSafeInteger(v) && context ? context.source : v);

function parseRows(text) {
  const out = [];
  for (const line of text.split("\n")) {
    if (!line.startsWith("{")) continue;
    try { out.push(JSON.parse(line, exact)); } catch { /* a line that was cut off when the tool was stopped */ }
  }
  return out;
}

// The rows that the tool printed.
export const rows = async (id) => parseRows(await (await request("GET", "/v1/jobs/" + id + "/result")).text());

// A list of the names that the tools know, such as "methods".
export const names = async (list) => parseRows(await (await request("GET", "/v1/lists/" + list)).text());
