// The pieces of one recording over its time: a block for each in the colour of its class, its doubt as a bar below.

const KINDS = 8; // colours in review.css
const LEAST_LABEL = 30; // px of a block that has room for more than two letters of its class

// Recordings of which there are several pieces, each with the numbers of its pieces by time.
function recordingsOf(pieces) {
  const found = new Map();
  pieces.forEach((piece, number) => {
    if (piece.start === null) return;
    if (!found.has(piece.file)) found.set(piece.file, []);
    found.get(piece.file).push(number);
  });
  const several = [...found].filter(([, numbers]) => numbers.length > 1);
  return new Map(several.map(([file, numbers]) => [file, numbers.sort((a, b) => pieces[a].start - pieces[b].start)]));
}

// A round step of time so that marks are at least 70 px apart.
function stepOf(seconds, width) {
  const least = (70 * seconds) / width;
  return [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 1800, 3600].find((step) => step >= least) ?? 7200;
}

function stamp(seconds) {
  const rest = String(Math.floor(seconds % 60)).padStart(2, "0");
  const minutes = Math.floor(seconds / 60);
  return minutes < 60 ? `${minutes}:${rest}` : `${Math.floor(minutes / 60)}:${String(minutes % 60).padStart(2, "0")}:${rest}`;
}

// To a tenth of a second.
const exactly = (seconds) => `${stamp(seconds)}.${Math.floor(10 * seconds) % 10}`;

// A lane of `end` seconds over `width` px, with marks of time; `put` places an element on it, `seconds` long.
function laneOf(end, width, attributes = {}) {
  const lane = html("div", { class: "lane", ...attributes });
  const put = (element, start, seconds = null) => {
    element.style.left = percent(start / end, 4);
    if (seconds !== null) element.style.width = percent(seconds / end, 4);
    lane.append(element);
  };
  const last = end * (1 - 48 / width); // a later mark would have no room for its time
  for (let mark = 0; mark <= last; mark += stepOf(end, width)) put(html("span", { class: "tick", "aria-hidden": "true" }, stamp(mark)), mark);
  return { lane, put };
}

// `named` gives the class of a piece, `play` is called with a piece and the seconds into it.
function drawStrip(strip, data, numbers, attribute, zoom, named, play) {
  const pieces = numbers.map((number) => data.pieces[number]);
  const end = Math.max(...pieces.map((piece) => piece.end));
  const width = Math.max(strip.clientWidth, 280) * zoom;
  const classes = data.attributes[attribute];
  const { lane, put } = laneOf(end, width);
  lane.style.width = `${width}px`;
  lane.addEventListener("click", (event) => {
    if (event.target.closest(".span")) return;
    const box = lane.getBoundingClientRect(); // between pieces: from the next one on
    const seconds = (end * (event.clientX - box.left)) / box.width;
    const next = numbers.find((number) => data.pieces[number].end > seconds);
    if (next !== undefined) play(next, Math.max(0, seconds - data.pieces[next].start));
  });
  numbers.forEach((number, index) => {
    const piece = pieces[index];
    const class_ = named(number, attribute);
    const kind = class_ === null ? "none" : `kind-${classes.indexOf(class_) % KINDS}`;
    const words = [`${exactly(piece.start)} to ${exactly(piece.end)}`, class_ ?? "not named"];
    if (piece.doubt !== null) words.push(`doubt ${percent(piece.doubt)}`);
    const roomy = (width * (piece.end - piece.start)) / end >= LEAST_LABEL;
    const block = html("button", { type: "button", class: `span ${kind}`, title: words.join(", "), "aria-label": words.join(", "), "data-piece": number }, roomy ? (class_ ?? "") : "");
    block.addEventListener("click", (event) => {
      const box = block.getBoundingClientRect();
      const share = event.detail ? (event.clientX - box.left) / box.width : 0;
      play(number, Math.max(0, share) * (piece.end - piece.start));
    });
    const level = html("span", { class: `doubt${piece.review ? " high" : ""}` });
    level.style.height = `${(24 * (piece.doubt ?? 0)).toFixed(1)}px`;
    for (const element of [block, level]) put(element, piece.start, piece.end - piece.start);
  });
  lane.append(html("span", { class: "cursor", hidden: true }));
  strip.replaceChildren(lane);
}

function moveCursor(strip, data, numbers, seconds) {
  const cursor = strip.querySelector(".cursor");
  if (!cursor) return;
  const end = Math.max(...numbers.map((number) => data.pieces[number].end));
  cursor.hidden = seconds === null;
  if (seconds !== null) cursor.style.left = `${(100 * seconds) / end}%`;
}

function classLegend(data, attribute) {
  return data.attributes[attribute].map((class_, index) => html("span", { class: "key" }, html("span", { class: `swatch kind-${index % KINDS}` }), class_));
}
