// The page: a recording and settings go to the server, and its answer is drawn as it comes.

const place = (id) => document.getElementById(id);
const chosen = (name) => document.querySelector(`input[name="${name}"]:checked`)?.value;
const SCALES = { entropy: [0, 5], "class-entropy": [0, 3], margin: [0, 1], logprob: [-5, 0], random: [0, 1] };
let token_ = ""; // of the server, in memory only
let offer = null; // what the server says of its modes, models and gate
let sound = null; // the recording
let choices = 0; // how many recordings were chosen
let microphone = null;
let run = null; // the request that is shown
let open = null; // number of its piece that is shown
let waiting; // timer of the next request

// A problem in words: an Error with what to do about it.
const problem = (message, hint = null) => Object.assign(new Error(message), { hint });

function tell(error) {
  const message = error instanceof TypeError ? say("The server does not answer.", "服务器没有响应。") : error.message;
  place("problem").replaceChildren(html("p", { class: "notice bad" }, html("b", {}, message), ` ${error.hint ?? ""}`));
}

// The server's answer; asks for the token until it is right. A refusal is thrown in the server's words.
async function called(path, { headers, ...options } = {}) {
  for (let again = false; ; again = true) {
    const answer = await fetch(path, { ...options, headers: { ...headers, ...(token_ && { Authorization: `Bearer ${token_}` }) } });
    if (answer.ok) return answer;
    const { error } = await answer.json().catch(() => ({}));
    if (answer.status !== 401) throw problem(error?.message ?? `HTTP ${answer.status}`);
    place("wrong").hidden = !again;
    place("ask").showModal();
    await new Promise((entered) => place("ask").addEventListener("close", entered, { once: true }));
    token_ = place("token").value;
  }
}

// The values of server-sent events.
async function* eventsOf(answer) {
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  for (let rest = ""; ; ) {
    const { done, value } = await reader.read();
    if (done) throw problem(say("The connection was lost before the caption was complete.", "描述完成之前连接已断开。"));
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
  reader.onerror = () => failed(problem(say("The file cannot be read.", "无法读取该文件。")));
  reader.readAsDataURL(blob);
});

// The gate that the chosen settings put in force; in other modes than hybrid none decides.
function gateInForce() {
  const { dataset, value } = place("threshold");
  if (chosen("mode") !== "hybrid") return { name: "entropy", threshold: null, wake: null, below: false };
  return dataset.moved ? { ...offer.gate, threshold: Number(value), wake: Number(value) } : offer.gate;
}

async function requestOf({ blob }, { mode, gate }) {
  const moved = mode === "hybrid" && gate !== offer.gate;
  const specdec = { language: chosen("language"), ...(moved && { "gate.threshold": gate.threshold }), ...(moved && offer.gate.wake !== null && { "gate.wake": gate.wake }) };
  const content = [{ type: "input_audio", input_audio: { data: await base64(blob) } }];
  return JSON.stringify({ model: `specdec/${mode}`, stream: true, messages: [{ role: "user", content }], specdec });
}

// Captions the recording with the settings as they stand; a request under way gives way.
async function caption() {
  run?.abort.abort();
  const own = { mode: chosen("mode"), gate: gateInForce(), name: sound.name, pieces: new Map(), abort: new AbortController(), state: "encoding" };
  const began = performance.now();
  [run, open] = [own, null];
  place("problem").replaceChildren();
  draw();
  try {
    const options = { method: "POST", headers: { "Content-Type": "application/json" }, body: await requestOf(sound, own), signal: own.abort.signal };
    for await (const { error, specdec } of eventsOf(await called("/v1/chat/completions", options))) {
      if (error) throw problem(error.message);
      if (own !== run) return;
      if (specdec?.piece) take(specdec);
      if (specdec?.whole) own.whole = specdec.whole;
    }
    [own.state, own.seconds] = ["done", (performance.now() - began) / 1000];
  } catch (error) {
    if (own !== run) return;
    own.state = "failed";
    tell(error);
  }
  draw();
}

// Takes in an event of a piece: a block, or the rest of its transcript.
function take({ piece, block, tokens, transcript }) {
  const found = run.pieces.get(piece.index) ?? { ...piece, rounds: [], final: null };
  run.pieces.set(piece.index, found);
  run.state = "writing";
  if (block) {
    found.rounds.push(block);
    tokensOf.set(block, tokens);
  }
  if (transcript) found.final = { ...transcript, file: run.name, rounds: found.rounds };
  open ??= found.index;
  draw();
}

function show(index) {
  open = index;
  draw();
}

// The run that is shown, as far as it has come; what has the focus keeps it.
function draw() {
  const focus = document.activeElement?.dataset?.key;
  const pieces = [...(run?.pieces.values() ?? [])].sort((a, b) => a.index - b.index);
  const { rounds, final } = run?.pieces.get(open) ?? { rounds: [], final: null };
  const states = { encoding: say("The models encode the recording …", "模型正在编码录音 …"), writing: say("Writing …", "正在生成 …"), done: `${say("Done in", "完成，用时")} ${clock(run?.seconds)}` };
  place("input").classList.toggle("filled", Boolean(sound || microphone));
  place("progress").textContent = microphone ? say("Recording …", "正在录音 …") : (states[run?.state] ?? "");
  place("pieces")?.replaceChildren(...(pieces.length > 1 ? [timelineOf(pieces, sound.seconds, open, show), ...(run?.whole ? [wholeOf(run.whole)] : []), stepper(pieces, open, show)] : []));
  const writing = !final && ["encoding", "writing"].includes(run?.state);
  put(place("said"), { lang: final?.language ?? chosen("language") ?? "en", "aria-busy": String(writing) }, []);
  place("said").textContent = final ? final.caption : rounds.map((round) => round.committed_text).join("");
  place("said").classList.toggle("writing", writing);
  place("result").replaceChildren(...noticesOf(final), ...(run?.state === "done" ? [downloads()] : []), ...(rounds.length ? resultOf(run, rounds, final) : []));
  if (focus) document.querySelector(`[data-key="${focus}"]`)?.focus();
}

function downloads() {
  const lines = () => new Blob([...run.pieces.values()].map(({ final }) => `${JSON.stringify(final)}\n`), { type: "application/jsonl" });
  const exported = async (suffix) => (await called(`/page/export/${suffix}`, { method: "POST", body: lines() })).blob();
  const save = async (suffix) => {
    const href = URL.createObjectURL(suffix === "jsonl" ? lines() : await exported(suffix));
    html("a", { download: `${run.name.replace(/\.[^.]*$/, "")}.${suffix}`, href }).click();
    setTimeout(() => URL.revokeObjectURL(href), 10000);
  };
  const button = ([suffix, name]) => html("button", { type: "button", "data-key": suffix, click: () => save(suffix).catch(tell) }, name);
  const buttons = [["jsonl", "JSONL"], ["srt", "SRT"], ["TextGrid", "TextGrid"]].map(button);
  return html("div", { class: "downloads pills", role: "group", "aria-label": say("Download", "下载") }, html("span", { class: "small" }, say("Download", "下载")), ...buttons);
}

// Takes a recording and captions it; `samples` are known of what was recorded here.
async function choose(blob, name, samples = null) {
  const own = ++choices;
  if (blob.size > offer.most_bytes) return tell(problem(say(`${name} is larger than the server takes (${Math.floor(offer.most_bytes / 1e6)} MB).`, `${name} 超过服务器的上限（${Math.floor(offer.most_bytes / 1e6)} MB）。`)));
  const known = samples ?? (await samplesOf(blob).catch(() => null)); // what a browser cannot decode the server may
  if (own !== choices) return;
  sound = { blob, name, seconds: known && known.length / RATE, envelope: known?.length ? envelopeOf(known) : null };
  picture(playerOf(sound));
  caption();
}

function picture(content) {
  const player = place("picture").querySelector("audio");
  if (player) endPlayer(player);
  place("picture").replaceChildren(content);
}

function dropped([file, ...more]) {
  if (!file || !offer) return;
  if (microphone) tell(problem(say("Stop the recording first.", "请先停止录音。")));
  else if (more.length) tell(problem(say("The page takes one recording at a time.", "本页一次处理一个录音。"), say("specdec batch captions many.", "批量处理请用 specdec batch。")));
  else choose(file, file.name);
}

async function record() {
  place("record").disabled = true;
  try {
    microphone = await recording((envelope, seconds) => {
      picture(html("div", { class: "plot" }, waveform(envelope)));
      place("elapsed").textContent = clock(seconds);
    });
    recordingIs(true);
    const samples = await microphone.done;
    choose(wavOf(samples), `recording-${new Date().toISOString().slice(0, 19).replaceAll(":", "")}.wav`, samples);
  } catch {
    tell(problem(say("The microphone cannot be used.", "无法使用麦克风。"), say("Allow it for this page; browsers offer it over HTTPS and at 127.0.0.1.", "请允许本页使用麦克风；浏览器只在 HTTPS 或 127.0.0.1 提供麦克风。")));
  }
  recordingIs(false);
}

function recordingIs(on) {
  if (!on) microphone = null;
  place("record").disabled = false;
  place("stop").hidden = !on;
  place("record").hidden = place("choose").hidden = on;
  place("input").classList.toggle("recording", on);
  draw();
  place(on ? "stop" : "record").focus();
}

// Shows the settings as they are chosen; where there is a recording, it is captioned anew a moment later.
function changed() {
  words();
  clearTimeout(waiting);
  if (sound) waiting = setTimeout(caption, 400);
}

// Writes what is not drawn anew by itself, in the language of the page.
function words() {
  document.querySelector("audio")?.dispatchEvent(new Event("seeked"));
  if (offer) {
    place("threshold-of").disabled = chosen("mode") !== "hybrid" || !SCALES[offer.gate.name];
    const { wake, threshold } = gateInForce();
    const first = wake !== threshold && wake !== null ? say(`${fixed(wake, 2)}, then `, `${fixed(wake, 2)}，之后 `) : "";
    place("value").textContent = `${first}${fixed(Number(place("threshold").value), 2)}`;
    place("meaning").textContent = say(...WORDS.modes[chosen("mode")]);
  }
  draw();
}

async function begin() {
  const language = navigator.language.startsWith("zh") ? "zh" : "en";
  document.documentElement.lang = language;
  words();
  const found = await (await called("/page/settings")).json();
  const [min, max] = SCALES[found.gate.name] ?? [0, 1];
  Object.assign(place("threshold"), { min, max, step: 0.01, value: found.gate.threshold ?? min });
  for (const input of document.querySelectorAll('input[name="mode"]')) {
    input.parentElement.hidden = !found.modes.includes(input.value);
    input.checked = input.value === found.mode;
  }
  for (const each of document.querySelectorAll(".of-pair")) each.hidden = found.modes.length < 2;
  document.querySelector(`input[name="language"][value="${language}"]`).checked = true;
  place("models").textContent = found.models.join(" + ");
  offer = found;
  words();
}

const listeners = {
  speech: { click: () => ((document.documentElement.lang = say("zh", "en")), words()) },
  choose: { click: () => place("file").click() },
  file: { change: ({ target }) => (dropped(target.files), (target.value = "")) }, // so that the same file can be chosen again
  record: { click: record },
  stop: { click: () => microphone.stop() },
  settings: { change: changed, submit: (event) => event.preventDefault() },
  threshold: { input: ({ target }) => ((target.dataset.moved = "true"), words()) },
};
for (const [id, own] of Object.entries(listeners)) for (const [event, heard] of Object.entries(own)) place(id).addEventListener(event, heard);
for (const event of ["dragover", "dragleave", "drop"]) {
  document.addEventListener(event, (at) => {
    at.preventDefault();
    place("input").classList.toggle("over", event === "dragover");
    if (event === "drop") dropped(at.dataTransfer.files);
  });
}
begin().catch(tell);
