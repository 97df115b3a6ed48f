// The recording: a player, the waveform and the pitch curve, on one time axis.

const PLOT = { width: 400, wave: 64, gap: 6, pitch: 76 };

function wavePath(envelope) {
  const columns = envelope.length / 2;
  const middle = PLOT.wave / 2;
  const y = (step) => (middle - (step / 127) * (middle - 1)).toFixed(1);
  let path = "";
  for (let column = 0; column < columns; column++) {
    const x = (((column + 0.5) / columns) * PLOT.width).toFixed(1);
    path += `M${x} ${y(envelope[2 * column])}V${y(Math.max(envelope[2 * column + 1], envelope[2 * column] + 1))}`;
  }
  return path;
}

// Semitones are even steps: the axis is logarithmic, an octave or more of it, around what was spoken.
function pitchScale(pitch) {
  const voiced = pitch.filter((hz) => hz !== null);
  if (!voiced.length) return null;
  let low = Math.log2(Math.min(...voiced)) - 0.1;
  let high = Math.log2(Math.max(...voiced)) + 0.1;
  const missing = Math.max(0, 1 - (high - low)) / 2;
  [low, high] = [low - missing, high + missing];
  const top = PLOT.wave + PLOT.gap;
  return (hz) => top + PLOT.pitch * (1 - (Math.log2(hz) - low) / (high - low));
}

function pitchPath(pitch, y) {
  let path = "";
  let down = false;
  pitch.forEach((hz, column) => {
    if (hz === null) {
      down = false;
      return;
    }
    const x = ((column + 0.5) / pitch.length) * PLOT.width;
    path += down ? `L${x.toFixed(1)} ${y(hz).toFixed(1)}` : `M${(x - 0.4).toFixed(1)} ${y(hz).toFixed(1)}h0.4`;
    down = true;
  });
  return path;
}

function pitchLines(y) {
  const inside = (hz) => y(hz) > PLOT.wave + PLOT.gap && y(hz) < PLOT.wave + PLOT.gap + PLOT.pitch;
  const steps = [75, 100, 150, 200, 300, 400, 600].filter(inside);
  const lines = steps.map((hz) => svg("path", { class: "grid", d: `M0 ${y(hz).toFixed(1)}H${PLOT.width}` }));
  const names = steps.map((hz) => {
    const share = y(hz) / (PLOT.wave + PLOT.gap + PLOT.pitch);
    const name = html("span", { class: "hertz" }, `${hz} Hz`);
    name.style.top = `${(100 * share).toFixed(2)}%`;
    return name;
  });
  return { lines, names };
}

// Waveform above pitch; a click moves the player there, and the player's place is drawn.
function soundPlot(sound, player) {
  const y = pitchScale(sound.pitch);
  const marks = y ? pitchLines(y) : { lines: [], names: [] };
  const height = PLOT.wave + PLOT.gap + PLOT.pitch;
  const place = svg("path", { class: "place", d: `M0 0V${height}` });
  const hertz = sound.median === null ? "no voiced sound" : `median pitch ${Math.round(sound.median)} Hz`;
  const picture = svg(
    "svg",
    { viewBox: `0 0 ${PLOT.width} ${height}`, preserveAspectRatio: "none", role: "img", "aria-label": `Waveform and pitch curve; ${hertz}` },
    ...marks.lines,
    svg("path", { class: "wave", d: wavePath(sound.envelope) }),
    y ? svg("path", { class: "pitch", d: pitchPath(sound.pitch, y) }) : null,
    place,
  );
  if (player) {
    follow(player, () => place.setAttribute("transform", `translate(${(player.currentTime / sound.seconds) * PLOT.width} 0)`));
    picture.classList.add("seekable");
    picture.addEventListener("click", (event) => {
      const box = picture.getBoundingClientRect();
      player.currentTime = ((event.clientX - box.left) / box.width) * sound.seconds;
    });
  } else place.remove();
  return html("div", { class: "sound" }, html("div", { class: "plot" }, picture, ...marks.names), html("p", { class: "small" }, sound.facts));
}
