// The page: a recording and settings go to the server, and what it answers is drawn as it comes.

const place = (id) => document.getElementById(id);
const SCALES = { entropy: [0, 5], "class-entropy": [0, 3], margin: [0, 1], logprob: [-5, 0], learned: [0, 1], random: [0, 1] };
const FORMATS = ["wav", "mp3", "flac", "ogg", "m4a"]; // that the API names; the bytes decide
const MODES = {
  hybrid: ["The edge drafts, and the gate decides which blocks the cloud verifies.", "端侧草拟，由门控决定哪些块交给云端核对。"],
  lossless: ["The cloud verifies every block: the text is the cloud's own.", "每一块都由云端核对：文字与云端独自生成的相同。"],
  edge: ["The edge writes alone.", "由端侧独自生成。"],
  cloud: ["The cloud writes alone.", "由云端独自生成。"],
};
let secret = ""; // of the server, in memory only
let offer = null; // what the server says of its models and settings
let sound = null; // the recording: its name, blob, waveform and seconds
let microphone = null;
let run = null; // the request that is shown
let open = 0; // piece that is shown
let wanted; // timer of the next request

class Refused extends Error {
  constructor(message, hint) {
    super(message);
    this.hint = hint;
  }
}

// The answer of the server; asks for the token until it is right. What the server refuses is thrown in its words.
async function called(path, options = {}) {
  for (;;) {
    const answer = await fetch(path, { ...options, headers: { ...options.headers, ...(secret && { Authorization: `Bearer ${secret}` }) } });
    if (answer.ok) return answer;
    if (answer.status !== 401) throw refusalOf((await answer.json().catch(() => ({}))).error, answer.status);
    await asked();
  }
}

const refusalOf = (error, status) => new Refused(error?.message ?? say(`The server answers with status ${status}.`, `服务器返回状态 ${status}。`), error?.hint);

// Resolves when a token was entered.
function asked() {
  const dialog = place("ask");
  if (!dialog.open) dialog.showModal();
  return new Promise((entered) => dialog.addEventListener("close", () => entered((secret = place("token").value)), { once: true }));
}

function tell(error) {
  const gone = error instanceof TypeError;
  const message = gone ? say("The server does not answer.", "服务器没有响应。") : error.message;
  place("problem").replaceChildren(html("p", { class: "notice bad" }, html("b", {}, message), error.hint ? html("span", {}, ` ${error.hint}`) : null));
}

const chosen = (name) => document.querySelector(`input[name="${name}"]:checked`)?.value;

// The gate that the chosen settings put in force; in other modes none decides.
function gateInForce() {
  const { changed, value } = { changed: place("threshold").dataset.changed, value: Number(place("threshold").value) };
  if (chosen("mode") !== "hybrid") return { name: "entropy", threshold: null, wake: null, below: false };
  return changed ? { ...offer.gate, threshold: value, wake: value } : offer.gate;
}

function request(data) {
  const own = { language: chosen("language") };
  if (gateInForce().threshold !== offer.gate.threshold && chosen("mode") === "hybrid") own["gate.threshold"] = gateInForce().threshold;
  const content = [{ type: "input_audio", input_audio: { data, format: sound.format } }];
  return { model: `specdec/${chosen("mode")}`, stream: true, messages: [{ role: "user", content }], specdec: own };
}

// The values of server-sent events.
async function* eventsOf(answer) {
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  for (let rest = ""; ; ) {
    const { done, value } = await reader.read();
    if (done) throw new Refused(say("The connection was lost before the caption was complete.", "描述完成之前连接已断开。"));
    const lines = (rest + value).split("\n");
    rest = lines.pop();
    for (const line of lines.filter((each) => each.startsWith("data: "))) {
      if (line === "data: [DONE]") return;
      yield JSON.parse(line.slice(6));
    }
  }
}

const base64 = (blob) => new Promise((done, failed) => {
  const reader = new FileReader();
  reader.onload = () => done(reader.result.split(",")[1]);
  reader.onerror = () => failed(reader.error);
  reader.readAsDataURL(blob);
});

// Captions the recording with the settings as they stand; a request under way gives way.
async function caption() {
  if (!sound) return;
  run?.abort.abort();
  const own = { abort: new AbortController(), mode: chosen("mode"), gate: gateInForce(), pieces: new Map(), began: performance.now(), seconds: null };
  [run, open] = [own, null];
  place("problem").replaceChildren();
  draw();
  try {
    const body = JSON.stringify(request(await base64(sound.blob)));
    const answer = await called("/v1/chat/completions", { method: "POST", body, headers: { "Content-Type": "application/json" }, signal: own.abort.signal });
    for await (const event of eventsOf(answer)) {
      if (event.error) throw refusalOf(event.error);
      if (own === run) take(own, event.specdec);
    }
    own.seconds = (performance.now() - own.began) / 1000;
  } catch (error) {
    if (own !== run) return; // another one was asked for
    own.failed = true;
    tell(error);
  }
  if (own === run) draw();
}

// Takes in what an event says of a piece: a block, or the rest of its transcript.
function take(own, { block, piece, transcript }) {
  if (!piece) return; // the end, which says all again
  const found = own.pieces.get(piece.index) ?? { ...piece, rounds: [], final: null };
  own.pieces.set(piece.index, found);
  if (block) found.rounds.push(block);
  if (transcript) found.final = { ...transcript, file: sound.name, rounds: found.rounds };
  open ??= found.index;
  draw();
}

// The run that is shown, as far as it is known; what has the focus keeps it.
function draw() {
  const focus = document.activeElement?.dataset?.key;
  place("input").classList.toggle("filled", sound !== null);
  place("progress").textContent = progress();
  const pieces = [...(run?.pieces.values() ?? [])].sort((a, b) => a.index - b.index);
  const piece = run?.pieces.get(open);
  place("result").hidden = !run || (run.failed && !piece);
  place("pieces")?.replaceChildren(...(pieces.length > 1 ? [timelineOf(pieces, sound.seconds, open, show), stepper(pieces, piece)] : []));
  place("result").replaceChildren(...(run ? resultOf(piece ?? { rounds: [] }) : []));
  if (focus) document.querySelector(`[data-key="${focus}"]`)?.focus();
}

function resultOf({ rounds, final }) {
  const text = final?.caption ?? rounds.map((round) => round.committed_text).join("");
  const known = final ? [...(final.flags ?? []).map((flag) => html("p", { class: "notice" }, say(...FLAGS[flag]))), downloads()] : [];
  const names = Object.keys(final?.labels ?? {}).filter((name) => final.labels[name] !== null || final.scores?.[name]);
  const tiles = names.sort((a) => (a === "emotion" ? -1 : 0)).map((name) => tileOf(name, final));
  return [
    html("p", { class: `said${final ? "" : " writing"}`, lang: final?.language ?? chosen("language") }, text),
    ...known,
    ...(tiles.length ? [html("h2", {}, say("Classes and measurements", "类别与测量")), html("div", { class: "tiles" }, ...tiles)] : []),
    ...(rounds.length ? [html("h2", {}, say("How it was written", "生成过程")), html("ol", { class: "blocks" }, ...rounds.map((round) => blockOf(round, run)))] : []),
    ...(final ? [html("dl", { class: "totals" }, ...factsOf(final))] : []),
    ...(rounds.length ? [html("div", { class: "legend" }, ...legendOf(rounds, run))] : []),
  ];
}

// Buttons to the pieces before and after the one that is shown.
function stepper(pieces, { index, start_s, end_s }) {
  const at = pieces.findIndex((piece) => piece.index === index);
  const step = (by, sign, words) => html("button", { type: "button", "data-key": words, "aria-label": words, disabled: !pieces[at + by], click: () => show(pieces[at + by].index) }, sign);
  return html("p", { class: "stepper" }, step(-1, "←", say("Previous piece", "上一段")), ` ${at + 1} / ${pieces.length} · ${exactly(start_s)}–${exactly(end_s)} `, step(1, "→", say("Next piece", "下一段")));
}

function show(index) {
  open = index;
  draw();
}

function progress() {
  if (microphone) return say("Recording", "正在录音");
  if (run === null || run.failed) return "";
  const blocks = [...run.pieces.values()].reduce((sum, piece) => sum + piece.rounds.length, 0);
  if (run.seconds === null) return blocks ? say(`Writing, block ${blocks}`, `正在生成，第 ${blocks} 块`) : say("The models encode the recording", "模型正在编码录音");
  return say(`Done in ${clock(run.seconds)}`, `完成，用时 ${clock(run.seconds)}`);
}

function downloads() {
  const lines = () => new Blob([...run.pieces.values()].map(({ final }) => `${JSON.stringify(final)}\n`), { type: "application/jsonl" });
  const exported = async (format) => (await called(`/page/export/${format}`, { method: "POST", body: lines() })).blob();
  const all = [["JSONL", "jsonl", lines], ["SRT", "srt", () => exported("srt")], ["TextGrid", "TextGrid", () => exported("textgrid")]];
  const buttons = all.map(([name, suffix, made]) => html("button", { type: "button", "data-key": suffix, click: () => Promise.resolve(made()).then((blob) => save(blob, suffix), tell) }, name));
  return html("div", { class: "downloads", role: "group", "aria-label": say("Download", "下载") }, html("span", { class: "small" }, say("Download", "下载")), ...buttons);
}

function save(blob, suffix) {
  const link = html("a", { download: `${sound.name.replace(/\.[^.]*$/, "")}.${suffix}`, href: URL.createObjectURL(blob) });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}

// Takes a recording and captions it. Samples are known of what was recorded here.
async function choose(blob, name, samples = null) {
  const known = samples ?? (await samplesOf(blob).catch(() => null)); // what a browser cannot decode the server may
  sound = { blob, name, format: FORMATS.find((each) => name.toLowerCase().endsWith(each)) ?? "wav", seconds: known && known.length / RATE, envelope: known && envelopeOf(known) };
  picture(playerOf(sound));
  caption();
}

function picture(content) {
  const old = place("picture").querySelector("audio");
  old?.pause();
  if (old) URL.revokeObjectURL(old.src);
  place("picture").hidden = false;
  place("picture").replaceChildren(content);
}

function dropped(files) {
  place("problem").replaceChildren();
  if (files.length > 1) tell(new Refused(say("The page takes one recording at a time.", "本页一次处理一个录音。"), say(`This is ${files[0].name}; specdec batch captions many.`, `这里处理 ${files[0].name}；批量处理请用 specdec batch。`)));
  else if (files.length) choose(files[0], files[0].name);
}

async function record() {
  try {
    microphone = await recording((envelope, seconds) => {
      picture(html("div", { class: "plot" }, waveform(envelope)));
      place("elapsed").textContent = clock(seconds);
    });
  } catch {
    return tell(new Refused(say("The microphone cannot be used.", "无法使用麦克风。"), say("Allow it for this page, and open the page over HTTPS or at 127.0.0.1.", "请允许本页使用麦克风，并通过 HTTPS 或 127.0.0.1 打开。")));
  }
  recordingIs(true);
  place("stop").focus();
  try {
    const samples = await microphone.done;
    choose(wavOf(samples), `recording-${new Date().toISOString().slice(0, 19).replaceAll(":", "")}.wav`, samples);
  } catch (error) {
    tell(error);
  }
  microphone = null;
  recordingIs(false);
  place("record").focus();
}

function recordingIs(on) {
  place("stop").hidden = !on;
  place("record").hidden = place("choose").hidden = on;
  place("input").classList.toggle("recording", on);
  draw();
}

// Settings as they are chosen; where there is a recording, it is captioned anew a moment later.
function changed() {
  const mode = chosen("mode");
  place("threshold-of").disabled = mode !== "hybrid" || !SCALES[offer.gate.name];
  place("meaning").textContent = say(...MODES[mode]);
  place("value").textContent = `${place("threshold").value} · ${offer.gate.name}`;
  clearTimeout(wanted);
  if (sound) wanted = setTimeout(caption, 400);
}

function speak(language) {
  document.documentElement.lang = language;
  place("theme").lastElementChild.textContent = say(...{ automatic: ["automatic", "自动"], light: ["light", "浅色"], dark: ["dark", "深色"] }[document.documentElement.dataset.theme ?? "automatic"]);
  if (offer) place("meaning").textContent = say(...MODES[chosen("mode")]);
  draw();
}

async function begin() {
  speak(navigator.language.startsWith("zh") ? "zh" : "en");
  offer = await (await called("/page/settings")).json();
  const [least, most] = SCALES[offer.gate.name] ?? [0, 1];
  Object.assign(place("threshold"), { min: least, max: most, step: (most - least) / 100, value: offer.gate.threshold ?? least });
  for (const input of document.querySelectorAll('input[name="mode"]')) input.parentElement.hidden = !offer.modes.includes(input.value);
  document.querySelector(`input[name="mode"][value="${offer.mode}"]`).checked = true;
  document.querySelector(`input[name="language"][value="${document.documentElement.lang}"]`).checked = true;
  place("models").textContent = offer.models.join(" + ");
  changed();
}

place("speech").addEventListener("click", () => speak(document.documentElement.lang === "zh" ? "en" : "zh"));
place("theme").addEventListener("click", () => speak(document.documentElement.lang));
place("choose").addEventListener("click", () => place("file").click());
place("file").addEventListener("change", (event) => dropped(event.target.files));
place("record").addEventListener("click", record);
place("stop").addEventListener("click", () => microphone.stop());
place("settings").addEventListener("submit", (event) => event.preventDefault());
place("settings").addEventListener("change", changed);
place("threshold").addEventListener("input", () => {
  place("threshold").dataset.changed = "true";
  place("value").textContent = `${place("threshold").value} · ${offer.gate.name}`;
});
for (const [event, over] of [["dragover", true], ["dragleave", false], ["drop", false]]) {
  document.addEventListener(event, (at) => {
    at.preventDefault();
    place("input").classList.toggle("over", over);
    if (event === "drop") dropped(at.dataTransfer.files);
  });
}
begin().catch(tell);
