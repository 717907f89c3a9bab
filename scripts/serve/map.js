// map.js - the anatomy of a model as a grid: blocks across, roles down. In a map to choose from,
// every cell is a toggle, and so are the headings of rows and blocks. The arrow keys move.
import { h, bytes, className, number, visible } from "./dom.js";
import { also } from "./kept.js";
import { limits, nameOf, parseRanges, ranges, rowOf } from "./selection.js";

const order = ["embed", "skeleton", "organ", "norm", "adapter", "other"];
const STEPS = 10;
const LARGEST = 30000; // cells; a model of strange names could ask for millions

function arrange(tensors) {
  const rows = new Map(), outside = [];
  for (const t of tensors) {
    if (t.block === null) { outside.push(t); continue; }
    const key = rowOf(t);
    if (!rows.has(key)) rows.set(key, { key, role: t.role, class: t.class, cells: new Map() });
    rows.get(key).cells.set(t.block, t);
  }
  const list = [...rows.values()].sort((a, b) => order.indexOf(a.class) - order.indexOf(b.class));
  const roles = list.map((r) => String(r.role));
  list.forEach((r) => { r.label = roles.indexOf(String(r.role)) === roles.lastIndexOf(String(r.role)) ? r.role : r.key; });
  const blocks = [...new Set(tensors.filter((t) => t.block !== null).map((t) => t.block))].sort((a, b) => a - b);
  return { rows: list, outside, blocks, large: list.length * blocks.length + outside.length > LARGEST };
}

// The same map as a small picture without text.
export function smallMap(tensors) {
  const { rows, blocks, large } = arrange(tensors), ns = "http://www.w3.org/2000/svg"; // a name, never loaded
  const svg = document.createElementNS(ns, "svg");
  svg.setAttribute("class", "small");
  if (large) return svg;
  svg.setAttribute("viewBox", "0 0 " + Math.max(1, blocks.length) + " " + Math.max(1, rows.length));
  svg.setAttribute("preserveAspectRatio", "none");
  svg.setAttribute("aria-hidden", "true");
  svg.style.width = Math.min(104, 9 * blocks.length) + "px";
  const paths = new Map();
  rows.forEach((row, y) => blocks.forEach((b, x) => {
    if (row.cells.has(b)) paths.set(row.class, (paths.get(row.class) || "") + "M" + x + " " + y + "h.84v.8h-.84z");
  }));
  for (const [c, d] of paths) {
    const path = document.createElementNS(ns, "path");
    path.setAttribute("d", d);
    path.setAttribute("class", "f-" + c);
    svg.append(path);
  }
  return svg;
}

// options: values (Map of name to number), label, reverse, among (values that share the colours); or chosen (Set), possible (Set), onchange
export function anatomyMap(tensors, options = {}) {
  const { rows, outside, blocks, large } = arrange(tensors);
  const { values, chosen, possible } = options;
  const scale = values && limits(options.among || values.values(), /, degrees$/.test(options.label));
  const cells = new Map(); // name -> button
  const can = (t) => !possible || possible.has(nameOf(t));
  const before = chosen && also("chosen", () => [...chosen]);
  if (before) {
    chosen.clear();
    for (const t of tensors) if (can(t) && before.includes(nameOf(t))) chosen.add(nameOf(t));
  }
  const readout = h("p", { class: "readout", "aria-live": "off" }, "Point at a cell to see its tensor.");

  function describe(t) {
    const parts = t.text ? [t.text] : [nameOf(t), className(t.class), visible(t.dtype), t.dims.join(" × "), bytes(t.bytes)];
    if (values) parts.push(options.label + " " + number(values.get(nameOf(t)) ?? null));
    if (chosen && !can(t)) parts.push("not in the base");
    return parts.map(visible).join(" · ");
  }
  function paint(el, t) {
    const name = nameOf(t), v = values && values.get(name);
    let cls = "cell";
    if (values && (v === undefined || v === null)) cls += " none";
    else if (values && scale) {
      let x = (v - scale.low) / (scale.high - scale.low);
      if (options.reverse) x = 1 - x;
      cls += " v" + Math.max(0, Math.min(STEPS - 1, Math.floor(x * STEPS)));
    } else if (chosen) {
      cls += can(t) ? (chosen.has(name) ? " on" : " off") : " none";
      el.setAttribute("aria-pressed", String(chosen.has(name)));
    } else cls += " c-" + t.class;
    el.className = cls;
  }
  function repaint() {
    for (const t of large ? [] : tensors) paint(cells.get(nameOf(t)), t);
    update();
    if (options.onchange) options.onchange(chosen);
  }
  // All on, unless they are all on already.
  function toggle(list) {
    const able = list.filter(can).map(nameOf);
    const on = able.some((n) => !chosen.has(n));
    for (const n of able) if (on) chosen.add(n); else chosen.delete(n);
    repaint();
  }
  const cell = (t, at) => {
    const el = h("button", { type: "button", tabindex: "-1", "aria-label": describe(t), "data-at": at,
      disabled: chosen && !can(t), onclick: () => (chosen ? toggle([t]) : say(t)),
      onmouseenter: () => say(t), onfocus: () => say(t) });
    cells.set(nameOf(t), el);
    paint(el, t);
    return el;
  };
  const say = (t) => { readout.textContent = describe(t); };

  const every = blocks.length > 40 ? 10 : blocks.length > 16 ? 5 : 1;
  const head = (b) => (chosen
    ? h("button", { type: "button", class: "colhead", tabindex: "-1", "aria-label": "Block " + b, "data-at": "-1," + blocks.indexOf(b),
      onclick: () => toggle(tensors.filter((t) => t.block === b)) }, b % every ? "" : b)
    : h("span", { class: "colhead" }, b % every ? "" : b));
  const grid = h("div", { class: "map", role: "group", "aria-label": "Anatomy map: blocks across, roles down. The arrow keys move." });
  grid.style.setProperty("--n", String(Math.max(1, blocks.length)));
  if (blocks.length && !large) grid.append(h("span", { class: "corner" }, "block"), ...blocks.map(head));
  if (!large) rows.forEach((row, y) => {
    const label = [h("i", { class: "dot c-" + row.class }), h("span", { class: "name" }, row.label)];
    grid.append(chosen
      ? h("button", { type: "button", class: "rowhead", tabindex: "-1", "data-at": y + ",-1", title: visible(row.key),
        "aria-label": "Row " + visible(row.label), onclick: () => toggle([...row.cells.values()]) }, label)
      : h("span", { class: "rowhead", title: visible(row.key) }, label));
    blocks.forEach((b, x) => grid.append(row.cells.has(b) ? cell(row.cells.get(b), y + "," + x) : h("span", { class: "cell gap" })));
  });
  const extra = h("div", { class: "outside" }, large ? "This model has too many tensors for a map." : outside.map((t, i) =>
    h("span", { class: "single" }, cell(t, rows.length + i + ",0"), h("span", { class: "name", title: nameOf(t) }, nameOf(t)))));

  // The Tab key reaches only the cell that last had the focus.
  let stop = null;
  const box = h("div", { class: "mapbox", onfocusin: (e) => {
    if (!e.target.dataset.at) return;
    if (stop) stop.tabIndex = -1;
    stop = e.target;
    stop.tabIndex = 0;
  }, onkeydown: (e) => {
    const d = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] }[e.key];
    const here = e.target.dataset && e.target.dataset.at;
    if (!d || !here) return;
    e.preventDefault();
    let [y, x] = here.split(",").map(Number);
    for (let i = 0; i < rows.length + blocks.length + outside.length + 2; i++) {
      y += d[0];
      x += d[1];
      const to = box.querySelector('[data-at="' + y + "," + x + '"]') || (y >= rows.length && box.querySelector('[data-at="' + y + ',0"]'));
      if (to && !to.disabled) return to.focus();
    }
  } }, h("div", { class: "scroll plain" }, grid), outside.length || large ? extra : null, large ? null : readout);
  stop = box.querySelector("[data-at]:not([disabled])");
  if (stop) stop.tabIndex = 0;

  let update = () => {};
  const parts = [box];
  if (chosen) {
    const bar = chooser(tensors, blocks, chosen, can, repaint);
    update = bar.update;
    parts.unshift(bar.el);
  } else parts.push(scale ? valueLegend(scale, options) : classLegend(tensors));
  return { el: h("div", { class: "anatomy" }, parts), repaint };
}

// Buttons for classes, a field for blocks, all and none.
function chooser(tensors, blocks, chosen, can, repaint) {
  const classes = order.filter((c) => tensors.some((t) => t.class === c && can(t)));
  const of = (c) => tensors.filter((t) => t.class === c && can(t)).map(nameOf);
  const chips = classes.map((c) => h("button", { type: "button", class: "chip", "data-class": c, onclick: () => {
    const on = of(c).some((n) => !chosen.has(n));
    for (const n of of(c)) if (on) chosen.add(n); else chosen.delete(n);
    repaint();
  } }, h("i", { class: "dot c-" + c }), className(c)));
  const field = h("input", { type: "text", inputmode: "numeric", size: 10, placeholder: "0-3,7", "aria-label": "Keep only these blocks",
    onchange: () => {
      const keep = parseRanges(field.value);
      field.setAttribute("aria-invalid", String(!keep));
      if (!keep || !keep.size) return;
      for (const t of tensors) if (!keep.has(t.block)) chosen.delete(nameOf(t));
      repaint();
    } });
  const count = h("span", { class: "count" }, "");
  const all = (on) => { for (const t of tensors) if (on && can(t)) chosen.add(nameOf(t)); else chosen.delete(nameOf(t)); repaint(); };
  const el = h("div", { class: "chooser" }, chips,
    h("label", { class: "inline" }, "only blocks", field),
    h("button", { type: "button", class: "quiet", onclick: () => all(true) }, "All"),
    h("button", { type: "button", class: "quiet", onclick: () => all(false) }, "None"), count);
  function update() {
    chips.forEach((chip, i) => {
      const n = of(classes[i]).filter((x) => chosen.has(x)).length;
      chip.setAttribute("aria-pressed", n === 0 ? "false" : n === of(classes[i]).length ? "true" : "mixed");
    });
    const picked = tensors.filter((t) => chosen.has(nameOf(t)));
    const in_blocks = new Set(picked.filter((t) => t.block !== null).map((t) => t.block));
    count.textContent = picked.length + " of " + tensors.length + " tensors" + (in_blocks.size ? ", blocks " + ranges(in_blocks) : "");
  }
  update();
  return { el, update };
}

function classLegend(tensors) {
  const used = order.filter((c) => tensors.some((t) => t.class === c));
  return h("div", { class: "legend" }, used.map((c) => h("span", null, h("i", { class: "dot c-" + c }), className(c))));
}

function valueLegend(scale, options) {
  const steps = [...Array(STEPS).keys()].map((i) => h("i", { class: "v" + (options.reverse ? STEPS - 1 - i : i) }));
  return h("div", { class: "legend" }, h("span", null, options.label), h("span", { class: "num" }, number(scale.low)),
    h("span", { class: "ramp", "aria-hidden": "true" }, steps), h("span", { class: "num" }, number(scale.high)),
    h("span", { class: "faint" }, "The colours end at the 5th and 95th percentile."));
}
