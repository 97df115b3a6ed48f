// The recording: from a file or the microphone, its waveform and player, and the WAV of what is recorded here.

const RATE = 16000; // Hz, of what the models take
const LONGEST_S = 600; // of what is recorded here: 19 MB of WAV, which a request may hold
const COLUMNS = 400; // of a waveform
const AS_IT_IS = { echoCancellation: false, noiseSuppression: false, autoGainControl: false }; // these change a voice
const KINDS_OF_MEDIA = ["audio/webm;codecs=pcm", "audio/webm", "audio/mp4"]; // the first loses nothing

// Text in the language of the page.
const say = (en, zh) => (document.documentElement.lang === "zh" ? zh : en);

// Mono samples at RATE of whatever the browser decodes.
async function samplesOf(blob) {
  const sound = await new OfflineAudioContext(1, 1, RATE).decodeAudioData(await blob.arrayBuffer());
  const channels = Array.from({ length: sound.numberOfChannels }, (_, index) => sound.getChannelData(index));
  return channels[0].map((_, at) => channels.reduce((sum, channel) => sum + channel[at], 0) / channels.length);
}

// Samples as 16-bit PCM.
function wavOf(samples) {
  const bytes = 2 * samples.length;
  const view = new DataView(new ArrayBuffer(44 + bytes));
  const texts = [[0, "RIFF"], [8, "WAVEfmt "], [36, "data"]];
  const longs = [[4, 36 + bytes], [16, 16], [24, RATE], [28, 2 * RATE], [40, bytes]]; // sizes, rate, bytes per second
  const shorts = [[20, 1], [22, 1], [32, 2], [34, 16]]; // PCM, mono, bytes and bits of a sample
  for (const [at, text] of texts) [...text].forEach((letter, index) => view.setUint8(at + index, letter.charCodeAt(0)));
  for (const [at, value] of longs) view.setUint32(at, value, true);
  for (const [at, value] of shorts) view.setUint16(at, value, true);
  samples.forEach((sample, index) => view.setInt16(44 + 2 * index, Math.round(32767 * Math.max(-1, Math.min(1, sample))), true));
  return new Blob([view], { type: "audio/wav" });
}

// Lowest and highest sample in each column, in turn, the peak scaled to 127.
function envelopeOf(samples) {
  const ends = (part) => part.reduce(([low, high], sample) => [Math.min(low, sample), Math.max(high, sample)], [0, 0]);
  const [low, high] = ends(samples);
  const at = (column) => Math.floor((column * samples.length) / COLUMNS);
  const scaled = (sample) => Math.round((127 * sample) / Math.max(-low, high, 1e-9));
  return Array.from({ length: COLUMNS }, (_, column) => ends(samples.subarray(at(column), at(column + 1) + 1)).map(scaled)).flat();
}

function waveform(envelope, ...more) {
  const view = { viewBox: `0 0 ${PLOT.width} ${PLOT.wave}`, preserveAspectRatio: "none", "aria-hidden": "true" };
  return svg("svg", view, svg("path", { class: "wave", d: wavePath(envelope) }), ...more);
}

// A button that plays, and the waveform under an invisible slider, which moves the player by pointer and keys.
function playerOf({ blob, name, envelope }) {
  const player = html("audio", { src: URL.createObjectURL(blob), preload: "metadata" });
  const cursor = svg("path", { class: "place", d: `M0 0V${PLOT.wave}` });
  const seek = html("input", { type: "range", min: 0, max: 1, step: "any", value: 0 });
  const time = html("span");
  const button = html("button", { type: "button", class: "play" }, html("span"));
  const draw = () => {
    const length = Number.isFinite(player.duration) ? player.duration : 0;
    seek.value = player.currentTime / (length || 1);
    cursor.setAttribute("transform", `translate(${seek.value * PLOT.width} 0)`);
    time.textContent = `${clock(player.currentTime)} / ${clock(length)}`;
    seek.setAttribute("aria-label", say("Position", "位置"));
    seek.setAttribute("aria-valuetext", time.textContent);
    button.classList.toggle("playing", !player.paused);
    button.setAttribute("aria-label", player.paused ? say("Play", "播放") : say("Pause", "暂停"));
  };
  button.addEventListener("click", () => (player.paused ? player.play().catch(() => {}) : player.pause()));
  seek.addEventListener("input", () => (player.currentTime = seek.value * player.duration));
  follow(player, draw);
  const plot = envelope ? html("div", { class: "plot" }, waveform(envelope, cursor), seek) : html("div", { class: "plot" });
  return html("div", { class: "player" }, button, plot, html("div", { id: "pieces" }), html("p", { class: "name" }, html("bdi", {}, name), time), player);
}

// Records until `stop()` of what is returned, where `done` resolves to samples; `drawn(envelope, seconds)` as it goes.
async function recording(drawn) {
  const stream = await navigator.mediaDevices.getUserMedia({ audio: AS_IT_IS });
  const context = new AudioContext();
  const analyser = context.createAnalyser();
  context.createMediaStreamSource(stream).connect(analyser);
  const mimeType = KINDS_OF_MEDIA.find((each) => MediaRecorder.isTypeSupported(each));
  const recorder = new MediaRecorder(stream, { mimeType, audioBitsPerSecond: 256000 });
  const [parts, began, now] = [[], performance.now(), new Float32Array(analyser.fftSize)];
  let levels = Array(COLUMNS / 2).fill(1);
  const frame = () => {
    if (recorder.state !== "recording") return;
    analyser.getFloatTimeDomainData(now);
    levels = [...levels.slice(1), Math.max(1, Math.min(127, 254 * Math.max(...now)))];
    const seconds = (performance.now() - began) / 1000;
    drawn(levels.flatMap((level) => [-level, level]), seconds);
    if (seconds > LONGEST_S) recorder.stop();
    else requestAnimationFrame(frame);
  };
  recorder.addEventListener("dataavailable", (event) => parts.push(event.data));
  const done = new Promise((ended) => recorder.addEventListener("stop", ended)).then(() => {
    stream.getTracks().forEach((track) => track.stop());
    context.close();
    return samplesOf(new Blob(parts, { type: mimeType }));
  });
  recorder.start();
  frame();
  return { done, stop: () => recorder.state === "recording" && recorder.stop() };
}
