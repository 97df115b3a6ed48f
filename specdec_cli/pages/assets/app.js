// Views by address (#summary, #clips, #clip-3), colours, and keys.

const data = JSON.parse(document.getElementById("data").textContent);
const views = ["summary", "clips", "clip"].map((name) => [name, document.getElementById(`view-${name}`)]);
const search = document.getElementById("search");
const sort = document.getElementById("sort");
const wrong = document.getElementById("wrong"); // null without references
let items = [];

function arrange() {
  items = arranged(data, search.value, sort.value, wrong?.value);
  showList(document.getElementById("list"), document.getElementById("found"), data, items);
}

// The clips around `number` in the list as it stands; those around it in the order given if it is not in the list.
function neighboursOf(number) {
  const numbers = items.map((item) => item.number);
  const listed = numbers.includes(number) ? numbers : data.clips.map((_, index) => index + 1);
  const at = listed.indexOf(number);
  return { previous: listed[at - 1] ?? null, next: listed[at + 1] ?? null };
}

function release() {
  const player = document.querySelector("#view-clip audio");
  if (player) endPlayer(player);
  document.getElementById("view-clip").replaceChildren();
}

function address() {
  const number = Number(/^#clip-(\d+)$/.exec(location.hash)?.[1]);
  if (number >= 1 && number <= data.clips.length) return { name: "clip", number };
  return { name: location.hash === "#clips" ? "clips" : "summary", number: null };
}

function route(moved) {
  const { name, number } = address();
  release();
  if (name === "clip") showClip(document.getElementById("view-clip"), data, number, neighboursOf(number));
  for (const [view, element] of views) element.hidden = view !== name;
  for (const link of document.querySelectorAll("header nav a")) {
    const here = link.hash === `#${name}` || (name === "clip" && link.hash === "#clips");
    if (here) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  document.title = name === "clip" ? `${data.clips[number - 1].name} – specdec report` : "specdec report";
  if (moved) {
    window.scrollTo(0, 0);
    document.getElementById(`heading-${name}`).focus({ preventScroll: true });
  }
}

function keys(event) {
  if (event.ctrlKey || event.altKey || event.metaKey || event.target.closest("input, select, audio, [tabindex='0'].scroll")) return;
  const { name, number } = address();
  if (event.key === "/") {
    event.preventDefault();
    location.hash = "#clips";
    requestAnimationFrame(() => search.focus());
  }
  if (name !== "clip") return;
  const { previous, next } = neighboursOf(number);
  if (event.key === "ArrowLeft" && previous !== null) location.hash = `#clip-${previous}`;
  if (event.key === "ArrowRight" && next !== null) location.hash = `#clip-${next}`;
  if (event.key === "Escape") location.hash = "#clips";
}

document.querySelector(".controls").addEventListener("submit", (event) => event.preventDefault());
search.addEventListener("input", arrange);
sort.addEventListener("change", arrange);
wrong?.addEventListener("change", arrange);
window.addEventListener("hashchange", () => route(true));
document.addEventListener("keydown", keys);
arrange();
route(false);
