// Elements and numbers. Text always goes in as text: nothing here or elsewhere parses HTML out of data.

const SVG = "http://www.w3.org/2000/svg";

function put(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (typeof value === "function") element.addEventListener(name, value);
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return element;
}

// An HTML element; attributes that are functions listen, and null children are left out.
const html = (tag, attributes = {}, ...children) => put(document.createElement(tag), attributes, children);
const svg = (tag, attributes = {}, ...children) => put(document.createElementNS(SVG, tag), attributes, children);

// Calls `draw` whenever the place of a player changes, and once.
function follow(player, draw) {
  const frame = () => {
    draw();
    if (!player.paused && player.isConnected) requestAnimationFrame(frame);
  };
  for (const event of ["play", "pause", "ended", "loadedmetadata", "seeked"]) player.addEventListener(event, frame);
  draw();
}

const NONE = "—";
const fixed = (value, digits) => (value === null || value === undefined ? NONE : value.toFixed(digits));
const percent = (share, digits = 0) => (share === null || share === undefined ? NONE : `${(100 * share).toFixed(digits)}%`);

function milliseconds(value) {
  if (value === null || value === undefined) return NONE;
  return `${value >= 10 ? value.toFixed(0) : value.toFixed(1)} ms`;
}

function clock(seconds) {
  if (seconds === null || seconds === undefined) return NONE;
  if (seconds < 60) return `${seconds.toFixed(1)} s`;
  return `${Math.floor(seconds / 60)}:${String(Math.floor(seconds % 60)).padStart(2, "0")}`;
}

// Ends a player and frees its recording. What is still being loaded ends first: the browser would complain of it.
function endPlayer(player) {
  const recording = player.src;
  player.pause();
  player.removeAttribute("src");
  player.load();
  URL.revokeObjectURL(recording);
}
