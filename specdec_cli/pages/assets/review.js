// The review: a list of pieces, one of them open, and what a person says of their classes.

const data = JSON.parse(document.getElementById("data").textContent);
const names = Object.keys(data.attributes);
const recordings = recordingsOf(data.pieces);
const place = (id) => document.getElementById(id);
const store = `specdec-review-${data.id}`;

let truth = data.pieces.map((piece) => ({ ...piece.truth })); // of each piece: attribute -> class, by a person
let confirmed = data.pieces.map(() => []); // of each piece: attributes whose class was taken from the caption as it was
let unsaved = false;
let order = []; // numbers of the pieces in the list
let open = null; // number of the piece that is open
let row = 0; // chosen attribute of it
let along = null; // recording that is being played on, from piece to piece
let zoom = 1;

const said = (number, name) => truth[number][name] ?? data.pieces[number].labels[name] ?? null;
const done = (number) => Object.keys(truth[number]).length > 0;

function restore() {
  try {
    const kept = JSON.parse(localStorage.getItem(store));
    if (kept?.truth?.length === truth.length) ({ truth, unsaved, confirmed = confirmed } = kept);
  } catch {
    // some browsers keep nothing for local files
  }
}

function keep(saved) {
  unsaved = !saved;
  try {
    localStorage.setItem(store, JSON.stringify({ truth, unsaved, confirmed }));
  } catch {
    // as above
  }
}

function progress() {
  const count = truth.filter((_, number) => done(number)).length;
  place("progress").textContent = `${count} of ${data.pieces.length} reviewed${unsaved ? ", not saved" : ""}`;
}

// The references table: a line for each place, speaker and channel of which a person said something.
function table() {
  const lines = new Map();
  for (const [number, piece] of data.pieces.entries()) {
    if (!done(number)) continue;
    const found = { file: piece.file };
    if (piece.start !== null) Object.assign(found, { start_s: piece.start, end_s: piece.end });
    if (piece.speaker) found.speaker = piece.speaker;
    if (piece.channel) found.channel = piece.channel;
    const at = JSON.stringify(found);
    const cells = lines.get(at) ?? found;
    for (const [name, class_] of Object.entries(truth[number])) cells[`label_${name}`] = class_;
    if (confirmed[number].length) cells.confirmed = confirmed[number].join(" ");
    lines.set(at, cells);
  }
  return [...lines.values()].map((cells) => `${JSON.stringify(cells)}\n`).join("");
}

function save() {
  const link = html("a", { download: "corrections.jsonl", href: URL.createObjectURL(new Blob([table()], { type: "application/jsonl" })) });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
  keep(true);
  progress();
}

function tell(number, name, class_) {
  confirmed[number] = confirmed[number].filter((other) => other !== name);
  if (class_ === null) delete truth[number][name];
  else truth[number][name] = class_;
  keep(false);
  progress();
  refresh(number);
}

function confirm(number) {
  for (const name of names) {
    const class_ = said(number, name);
    if (class_ === null) continue;
    if (truth[number][name] === undefined) confirmed[number].push(name);
    truth[number][name] = class_;
  }
  keep(false);
  progress();
  refresh(number);
  step(1);
}

// What makes a piece doubtful, in a few words.
function doubts(piece) {
  const words = [];
  for (const name of names) {
    const scores = piece.scores[name];
    const class_ = piece.labels[name];
    if (!scores || !class_) continue;
    if (scores.edge === class_) words.push(`${name}: edge ${class_} (kept), cloud another`);
    else if (scores.edge) words.push(`${name}: edge ${scores.edge}, cloud ${class_}`);
    else if (scores.classes[class_] < 0.5) words.push(`${name}: ${class_} ${percent(scores.classes[class_])}`);
  }
  for (const [claim, fits] of Object.values(piece.claims)) if (!fits) words.push(`${claim} ✗`);
  return [...piece.flags, ...words];
}

function summary(number) {
  const piece = data.pieces[number];
  const when = piece.start === null ? clock(piece.seconds) : `${exactly(piece.start)} to ${exactly(piece.end)}`;
  const who = piece.speaker ? [` · `, html("bdi", {}, piece.speaker)] : [];
  if (piece.channel) who.push(` · channel ${piece.channel}`);
  return [
    html("span", { class: done(number) ? "sign" : "sign open", "aria-label": done(number) ? "reviewed" : "not reviewed" }, done(number) ? "✓" : piece.review ? "?" : ""),
    html("span", { class: "what" }, html("b", {}, html("bdi", {}, piece.name)), html("span", { class: "small" }, ` ${when}`, ...who)),
    html("span", { class: "small why" }, doubts(piece).join(" · ")),
    html("span", { class: "first", lang: piece.language }, piece.caption),
  ];
}

function item(number) {
  const button = html("button", { type: "button", class: "pick", "aria-expanded": "false", click: () => choose(number) }, ...summary(number));
  return html("li", { "data-piece": number, class: data.pieces[number].review ? "doubtful" : null }, button);
}

const itemOf = (number) => document.querySelector(`#list > li[data-piece="${number}"]`);

function classButton(number, name, class_, index) {
  const piece = data.pieces[number];
  const scores = piece.scores[name];
  const p = scores?.classes[class_] ?? null;
  const level = html("span", { class: "level" });
  level.style.width = percent(p ?? 0, 1);
  const notes = [];
  if (piece.labels[name] === class_) notes.push("caption");
  if (scores?.edge === class_) notes.push("edge");
  const chosen = truth[number][name] === class_;
  return html(
    "button",
    { type: "button", class: `class${chosen ? " chosen" : ""}${piece.labels[name] === class_ ? " named" : ""}`, "aria-pressed": String(chosen), click: (event) => pressed(event, number, name, class_) },
    html("span", { class: "digit" }, index < 9 ? String(index + 1) : ""),
    html("span", {}, class_),
    html("span", { class: "p" }, p === null ? "" : percent(p)),
    html("span", { class: "rail" }, level),
    notes.length ? html("span", { class: "note" }, notes.join(", ")) : null,
  );
}

function pressed(event, number, name, class_) {
  row = names.indexOf(name);
  tell(number, name, truth[number][name] === class_ ? null : class_);
  if (event.detail) itemOf(number)?.querySelector(".pick").focus({ preventScroll: true }); // so that keys go on
}

function attributeRow(number, name, index) {
  const piece = data.pieces[number];
  const scores = piece.scores[name];
  const facts = [];
  if (scores) facts.push(`by the ${scores.by}${scores.temperature === null ? ", not calibrated" : ""}`);
  if (scores && scores.other >= 0.005) facts.push(`other ${percent(scores.other)}`);
  const [claim, fits] = piece.claims[name] ?? [null, null];
  if (claim) facts.push(fits ? `${claim} ✓ fits the sound` : `${claim} ✗ contradicts the sound`);
  const head = html("div", { class: "attribute" }, name, html("span", { class: "small" }, facts.join(" · ")));
  const buttons = data.attributes[name].map((class_, at) => classButton(number, name, class_, at));
  return html("div", { class: `row${index === row ? " current" : ""}`, role: "group", "aria-label": name }, head, html("div", { class: "choices" }, ...buttons));
}

function rows(number) {
  return names.map((name, index) => attributeRow(number, name, index));
}

function editor(number) {
  const piece = data.pieces[number];
  const address = audioAddress(number);
  const player = address ? html("audio", { controls: true, src: address, preload: "metadata" }) : html("p", { class: "small" }, piece.missing ?? "Its audio is not in this page.");
  if (address) alongWith(player, number);
  const measured = piece.figures.join(" · ");
  return html(
    "div",
    { class: "editor" },
    player,
    html("p", { class: "caption", lang: piece.language }, piece.caption),
    piece.text ? html("p", { class: "spoken" }, html("span", { class: "small" }, "spoken: "), html("bdi", {}, piece.text)) : null,
    measured ? html("p", { class: "small" }, measured) : null,
    html("p", { class: "small path" }, html("bdi", {}, piece.file)),
    html("div", { class: "rows" }, ...rows(number)),
    html(
      "div",
      { class: "actions" },
      html("button", { type: "button", click: () => step(-1) }, "Previous"),
      html("button", { type: "button", class: "main", click: () => confirm(number) }, "Confirm and next"),
      html("button", { type: "button", click: () => step(1) }, "Next"),
    ),
  );
}

// Moves the cursor of the timeline with the player, and goes on to the next piece where the recording is played on.
function alongWith(player, number) {
  const piece = data.pieces[number];
  follow(player, () => {
    const numbers = recordings.get(piece.file);
    if (open === number && numbers && place("recording").value === piece.file) moveCursor(place("strip"), data, numbers, piece.start + player.currentTime);
  });
  player.addEventListener("ended", () => {
    const numbers = along === null ? [] : recordings.get(along);
    const next = numbers[numbers.indexOf(number) + 1];
    if (next !== undefined) playFrom(next, 0);
  });
}

function release() {
  const player = document.querySelector(".editor audio");
  if (player) endPlayer(player);
  document.querySelector(".editor")?.remove();
  for (const button of document.querySelectorAll('.pick[aria-expanded="true"]')) button.setAttribute("aria-expanded", "false");
  for (const block of document.querySelectorAll(".span.open")) block.classList.remove("open");
}

function choose(number, focus = true) {
  release();
  [open, row, along] = [number, 0, null];
  const found = itemOf(number);
  if (!found) return;
  const button = found.querySelector(".pick");
  button.setAttribute("aria-expanded", "true");
  found.append(editor(number));
  document.querySelector(`.span[data-piece="${number}"]`)?.classList.add("open");
  if (focus) button.focus({ preventScroll: true });
  found.scrollIntoView({ block: "nearest" });
}

// Plays a recording from a place in one of its pieces on.
function playFrom(number, seconds) {
  if (!order.includes(number)) {
    place("show").value = "all";
    place("search").value = "";
    list();
  }
  choose(number);
  along = data.pieces[number].file;
  const player = document.querySelector(".editor audio");
  if (!player) return;
  const start = () => {
    player.currentTime = seconds;
    player.play().catch(() => {}); // a browser may want a click on the player first
  };
  if (player.readyState) start();
  else player.addEventListener("loadedmetadata", start, { once: true });
}

function refresh(number) {
  const found = itemOf(number);
  if (found) found.querySelector(".pick").replaceChildren(...summary(number));
  if (open === number) document.querySelector(".editor .rows")?.replaceChildren(...rows(number));
  const block = document.querySelector(`.span[data-piece="${number}"]`);
  if (block) {
    const name = place("shown").value;
    const class_ = said(number, name);
    block.className = `span ${class_ === null ? "none" : `kind-${data.attributes[name].indexOf(class_) % KINDS}`}${open === number ? " open" : ""}`;
    block.textContent = class_ ?? "";
  }
}

function step(by) {
  const at = order.indexOf(open);
  const next = order[at < 0 ? 0 : at + by];
  if (next !== undefined) choose(next);
}

const SHOWN = {
  all: () => true,
  doubtful: (number) => data.pieces[number].review === true,
  open: (number) => !done(number),
  done,
};

function list() {
  const words = place("search").value.toLowerCase().split(/\s+/).filter(Boolean);
  const wanted = SHOWN[place("show").value];
  const text = (piece) => [piece.file, piece.caption, piece.speaker ?? "", piece.text ?? ""].join("\n").toLowerCase();
  release();
  open = null;
  order = data.pieces.map((_, number) => number).filter((number) => wanted(number) && words.every((word) => text(data.pieces[number]).includes(word)));
  if (place("sort").value === "place") {
    const [a, b] = [(n) => data.pieces[n].file, (n) => data.pieces[n].start ?? 0];
    order.sort((one, other) => a(one).localeCompare(a(other), undefined, { numeric: true }) || b(one) - b(other));
  }
  place("list").replaceChildren(...order.map(item));
  const all = data.pieces.length;
  place("found").textContent = order.length === all ? `${all} piece${all === 1 ? "" : "s"}` : `${order.length} of ${all} pieces`;
}

function strip() {
  const numbers = recordings.get(place("recording").value);
  if (!numbers) return;
  const name = place("shown").value;
  drawStrip(place("strip"), data, numbers, name, zoom, said, playFrom);
  place("legend").replaceChildren(...classLegend(data, name), html("span", { class: "key meaning" }, "Bars below: doubt, which is high where a class of the caption is unlikely"));
  document.querySelector(`.span[data-piece="${open}"]`)?.classList.add("open");
}

function toggle() {
  const player = document.querySelector(".editor audio");
  if (!player) return;
  if (player.paused) player.play().catch(() => {});
  else player.pause();
}

const KEYS = {
  j: () => step(1),
  ArrowDown: () => step(1),
  k: () => step(-1),
  ArrowUp: () => step(-1),
  " ": toggle,
  s: save,
  Enter: () => (open === null ? step(1) : confirm(open)),
  ArrowRight: () => turn(1),
  ArrowLeft: () => turn(-1),
};

function turn(by) {
  row = (row + by + names.length) % names.length;
  document.querySelectorAll(".editor .row").forEach((element, index) => element.classList.toggle("current", index === row));
}

function keys(event) {
  if (event.ctrlKey || event.altKey || event.metaKey || event.target.closest("input, select, audio, #strip")) return;
  const button = event.target.closest("button");
  if (button && !button.matches('.pick[aria-expanded="true"]') && (event.key === "Enter" || event.key === " ")) return;
  const digit = /^[0-9]$/.test(event.key) ? Number(event.key) : null;
  const name = names[row];
  if (digit !== null && open !== null && name) {
    const class_ = data.attributes[name][digit - 1];
    if (digit === 0) tell(open, name, null);
    else if (class_ !== undefined) tell(open, name, class_);
  } else if (KEYS[event.key]) KEYS[event.key]();
  else return;
  event.preventDefault();
}

function zoomed(factor) {
  zoom = Math.min(64, Math.max(1, zoom * factor));
  strip();
}

restore();
for (const file of recordings.keys()) place("recording").append(html("option", { value: file }, file));
for (const name of names) place("shown").append(html("option", { value: name }, name));
place("recordings").hidden = recordings.size === 0 || names.length === 0;
for (const id of ["recording", "shown"]) place(id).addEventListener("change", strip);
place("in").addEventListener("click", () => zoomed(2));
place("out").addEventListener("click", () => zoomed(0.5));
place("save").addEventListener("click", save);
document.querySelector("form.controls").addEventListener("submit", (event) => event.preventDefault());
place("search").addEventListener("input", list);
for (const id of ["show", "sort"]) place(id).addEventListener("change", list);
document.addEventListener("keydown", keys);
window.addEventListener("resize", strip);
window.addEventListener("beforeunload", (event) => unsaved && event.preventDefault());
list();
strip();
progress();
